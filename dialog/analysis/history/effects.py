"""Change in likelihood under changes of the context."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dialog.analysis.history.perturbations import PERTURBATIONS, drop_at_distance, perturb
from dialog.analysis.history.random_context import with_random_contexts
from dialog.data.dialogue import Example
from dialog.metrics.likelihood import BitsPerByte, PerplexityToken

RANDOM = "random context"
DISTANCES = 6
"""Largest distance, in turns, of a dropped turn."""


class Likelihood(NamedTuple):
    """Negative log-likelihood of a reference in nats, and its target tokens."""

    nll: float
    tokens: int


Score = Callable[[Sequence[Example]], Sequence[Likelihood]]


def history_effects(examples: Sequence[Example], score: Score) -> dict[str, Any]:
    """Return the change in likelihood under every change of the context: value with the change minus value without.

    A positive change means that the model made use of what was taken away. "perturbations" are averaged over all
    examples, those included whose context is too short to be changed ("changed" counts the others), as in Sankar et al.
    2019. "distance" is averaged over the examples that have a turn at this distance, "examples" of them. Changes that
    change no context are left out. Every distinct context of an example is scored once.

    "standard_error" is that of the change in bits per byte, a ratio of sums over D dialogues: sqrt(D / (D - 1) sum_d
    (x_d - change * b_d)^2) / sum_d b_d, with the change x_d of a dialogue in bits and its bytes b_d; None for one
    dialogue.

    Args:
        examples: A sample, with whole dialogues.
        score: Returns the likelihood of the reference of each example.
    """
    changes = {name: [perturb(example, name) for example in examples] for name in PERTURBATIONS}
    changes[RANDOM] = with_random_contexts(examples)
    distances = {
        distance: [drop_at_distance(example, distance) for example in examples] for distance in range(1, DISTANCES + 1)
    }
    table = _scored([examples, *changes.values(), *distances.values()], score)
    plain = [table[_key(example)] for example in examples]
    sizes = [len(example.response.text.encode()) for example in examples]
    perturbations = []
    for name, variants in changes.items():
        changed = sum(_key(variant) != _key(example) for variant, example in zip(variants, examples, strict=True))
        if changed:
            scored = [table[_key(variant)] for variant in variants]
            change = _change(plain, scored, sizes)
            error = _standard_error(examples, plain, scored)
            perturbations.append({"perturbation": name, "changed": changed, **change, "standard_error": error})
    by_distance = []
    for distance, shortened in distances.items():
        rows = [(row, table[_key(variant)]) for row, variant in enumerate(shortened) if variant is not None]
        if rows:
            kept = [row for row, _ in rows]
            change = _change([plain[row] for row in kept], [scored for _, scored in rows], [sizes[row] for row in kept])
            by_distance.append({"distance": distance, "examples": len(rows), **change})
    return {"plain": _values(plain, sizes), "perturbations": perturbations, "distance": by_distance}


Key = tuple[str, tuple[tuple[str, str], ...]]


def _key(example: Example) -> Key:
    return example.id, tuple((turn.speaker, turn.text) for turn in example.context)


def _scored(lists: Sequence[Sequence[Example | None]], score: Score) -> dict[Key, Likelihood]:
    distinct = {_key(variant): variant for variants in lists for variant in variants if variant is not None}
    return dict(zip(distinct, score(list(distinct.values())), strict=True))


def _values(scored: Sequence[Likelihood], sizes: Sequence[int]) -> dict[str, float]:
    nll, tokens = (sum(column) for column in zip(*scored, strict=True))
    bits, perplexity = BitsPerByte(), PerplexityToken()
    return {"bits_per_byte": bits.value(nll, sum(sizes), 0), "perplexity_token": perplexity.value(nll, tokens)}


def _standard_error(
    examples: Sequence[Example], plain: Sequence[Likelihood], scored: Sequence[Likelihood]
) -> float | None:
    """Return the standard error of the change in bits per byte, with dialogues as clusters."""
    changes: dict[str, float] = defaultdict(float)
    sizes: dict[str, int] = defaultdict(int)
    for example, before, after in zip(examples, plain, scored, strict=True):
        changes[example.dialogue_id] += (after.nll - before.nll) / math.log(2)
        sizes[example.dialogue_id] += len(example.response.text.encode())
    total, count = sum(sizes.values()), len(sizes)
    if count < 2 or not total:
        return None
    change = sum(changes.values()) / total
    squares = sum((changes[name] - change * sizes[name]) ** 2 for name in changes)
    return math.sqrt(squares * count / (count - 1)) / total


def _change(plain: Sequence[Likelihood], scored: Sequence[Likelihood], sizes: Sequence[int]) -> dict[str, float]:
    before, after = _values(plain, sizes), _values(scored, sizes)
    return {key: after[key] - before[key] for key in before}
