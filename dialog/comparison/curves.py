"""Learning curves of the runs of a model, validation bits per byte over a cost, and where they
cross.

Shapes: P points, R runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, groupby, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dialog.report.formats.numbers import count, duration, magnitude
from dialog.report.formats.results import Crossing, ModelResults

Floats = NDArray[np.float64]
AXES = ("target_tokens", "seconds", "flops")


class LearningCurve(NamedTuple):
    """Values at increasing costs, linear in between."""

    costs: Floats  # [P]
    values: Floats  # [P]

    def cost_to(self, value: float) -> float:
        """Return the lowest cost with at most this value; infinite if the curve stays above."""
        (below,) = np.nonzero(self.values <= value)
        if not len(below):
            return math.inf
        last = int(below[0])
        if last == 0:
            return float(self.costs[0])
        (x, end) = self.costs[last - 1 : last + 1]
        (y, low) = self.values[last - 1 : last + 1]
        return float(x + (end - x) * (y - value) / (y - low))


def validation_curves(model: ModelResults, axis: str) -> list[LearningCurve]:
    """Return the curves of a model's runs, without those that diverged.

    Costs on the axis "flops" are target tokens times `flops_per_target_token`. The list is empty if
    the model lacks the axis; a run without a finite validation has no curve.
    """
    rate = model.flops_per_target_token if axis == "flops" else 1
    key = "target_tokens" if axis == "flops" else axis
    if rate is None:
        return []
    curves = []
    for run in model.runs:
        points = [(rate * getattr(point, key), point.bits_per_byte) for point in run.validations]
        if points and not run.diverged:
            costs, values = np.array(points, dtype=np.float64).T
            curves.append(LearningCurve(costs, values))
    return curves


def common_support(curves: Sequence[LearningCurve]) -> tuple[float, float] | None:
    """Return the costs between which all curves are measured; None if they do not overlap."""
    start = max(curve.costs[0] for curve in curves)
    end = min(curve.costs[-1] for curve in curves)
    return (float(start), float(end)) if start < end else None


def seed_range(curves: Sequence[LearningCurve], costs: Floats) -> tuple[Floats, Floats]:
    """Return the lowest and the highest interpolated value of the curves [R] at costs [P]: [P],
    [P].
    """
    values = np.stack([np.interp(costs, curve.costs, curve.values) for curve in curves])
    return values.min(0), values.max(0)


PER = {"target_tokens": "Per target token", "seconds": "Per second", "flops": "Per FLOP"}
RESOLUTION = 1000
"""Number of evenly spaced costs at which two models are compared, in addition to the validations.
"""
MOST_STRETCHES = 4
"""Largest number of stretches that are listed; of more, the shares of the range are stated."""
UNDECIDED = "undecided"


class Stretch(NamedTuple):
    """A range of costs up to `end` in which one model is ahead, or neither (`UNDECIDED`)."""

    ahead: str
    end: float


def crossings(models: Sequence[ModelResults]) -> tuple[Crossing, ...]:
    """Return for each pair of models and each axis a sentence, and if the leader changes.

    A model is ahead where all of its validation curves, one per seed and linear between
    validations, are below all curves of the other; where the ranges of the seeds overlap, the
    models are not distinguishable. Costs that some run did not reach are left out, and so are runs
    that diverged. A pair without curves on an axis has no entry, nor has a pair with different
    tokenizers on the axis of target tokens.
    """
    found = []
    for (a, b), axis in product(combinations(models, 2), AXES):
        if axis == "target_tokens" and a.tokenizer != b.tokenizer:
            continue
        text, crosses = crossing(a, b, axis)
        if text:
            found.append(Crossing(a.name, b.name, axis, text, crosses))
    return tuple(found)


def crossing(a: ModelResults, b: ModelResults, axis: str) -> tuple[str, bool]:
    """Return a sentence, and whether each model is ahead somewhere; an empty one without curves.

    "Per second, B is ahead of A until 18 s, then A is ahead."
    """
    first = validation_curves(a, axis)
    second = validation_curves(b, axis)
    if not first or not second:
        return "", False
    names = f"{a.name} and {b.name}"
    support = common_support([*first, *second])
    if support is None:
        return f"{PER[axis]}, the learning curves of {names} have no common range.", False
    parts = stretches(a.name, first, b.name, second, support)
    if len(parts) <= MOST_STRETCHES:
        sentence = f"{PER[axis]}, {_listed(parts, a.name, b.name, axis)}"
    else:
        sentence = f"{PER[axis]}, {_shared(parts, support[0], names)}"
    if min(len(first), len(second)) == 1:
        sentence += f" (number of runs: {len(first)} and {len(second)})"
    return f"{sentence}.", {a.name, b.name} <= {part.ahead for part in parts}


def stretches(
    a: str,
    first: Sequence[LearningCurve],
    b: str,
    second: Sequence[LearningCurve],
    support: tuple[float, float],
) -> list[Stretch]:
    """Divide the common range of costs by the model that is ahead."""
    costs = np.concatenate(
        [np.linspace(*support, RESOLUTION), *(curve.costs for curve in (*first, *second))]
    )
    costs = np.unique(costs[(costs >= support[0]) & (costs <= support[1])])  # sorted
    (low_a, high_a) = seed_range(first, costs)
    (low_b, high_b) = seed_range(second, costs)
    ahead = np.where(high_a < low_b, a, np.where(high_b < low_a, b, UNDECIDED)).tolist()
    groups = [
        (name, [place for place, _ in group])
        for name, group in groupby(enumerate(ahead), key=lambda pair: pair[1])
    ]
    ends = [
        (costs[places[-1]] + costs[min(places[-1] + 1, len(costs) - 1)]) / 2 for _, places in groups
    ]
    return [Stretch(name, float(end)) for (name, _), end in zip(groups, ends, strict=True)]


def _shared(parts: Sequence[Stretch], start: float, names: str) -> str:
    """Return the shares of the range in which each model is ahead."""
    begins = [start, *(part.end for part in parts[:-1])]
    shares = {
        name: sum(
            part.end - begin
            for part, begin in zip(parts, begins, strict=True)
            if part.ahead == name
        )
        for name in dict.fromkeys(part.ahead for part in parts)
    }
    clauses = {name: f"{name} is ahead" for name in shares} | {
        UNDECIDED: f"{names} are not distinguishable"
    }
    length = parts[-1].end - start
    return ", ".join(
        f"{clauses[name]} over {100 * share / length:.0f} % of the range"
        for name, share in shares.items()
    )


def _listed(parts: Sequence[Stretch], a: str, b: str, axis: str) -> str:
    """Return who is ahead, stretch by stretch; the first clause names both models."""
    clauses = [
        "not distinguishable" if part.ahead == UNDECIDED else f"{part.ahead} is ahead"
        for part in parts
    ]
    if parts[0].ahead == UNDECIDED:
        clauses[0] = f"{a} and {b} are not distinguishable"
    else:
        clauses[0] += f" of {b if parts[0].ahead == a else a}"
    if len(parts) == 1:
        return clauses[0] + (" throughout" if parts[0].ahead != UNDECIDED else "")
    limits = [
        f"{clause} until {_amount(part.end, axis)}"
        for clause, part in zip(clauses, parts[:-1], strict=False)
    ]
    return ", then ".join([*limits, clauses[-1]])


def _amount(cost: float, axis: str) -> str:
    if axis == "seconds":
        return duration(cost)
    if axis == "flops":
        return magnitude(cost, "FLOPs")
    return f"{count(float(f'{cost:.3g}'))} tokens"
