"""Learning curves of the runs of a model: validation bits per byte over a cost.

Shapes: P points, R runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
VALIDATION = "validation/bits_per_byte"
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


def validation_curves(model: Mapping[str, Any], axis: str) -> list[LearningCurve]:
    """Return the curves of a model's runs (an entry of "models" in results.json), without those
    that diverged.

    Costs on the axis "flops" are target tokens times `flops_per_target_token`. The list is empty if
    the model lacks the axis; a run without a finite validation has no curve.
    """
    rate = model.get("flops_per_target_token") if axis == "flops" else 1
    key = "target_tokens" if axis == "flops" else axis
    if rate is None:
        return []
    curves = []
    for run in model["runs"]:
        points = [
            (rate * point[key], point[VALIDATION])
            for point in run["curve"]
            if point[VALIDATION] is not None
        ]
        if points and not run.get("diverged"):
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
