"""Change in likelihood under changes of the context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dialog.analysis.context_use.perturbations import PERTURBATIONS, drop_at_distance, perturb
from dialog.analysis.context_use.random_context import with_random_contexts
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


def context_effects(examples: Sequence[Example], score: Score) -> dict[str, Any]:
    """Return the change in likelihood under every change of the context: value with the change
    minus value without.

    A positive change means that the model made use of what was taken away. "perturbations" are
    averaged over all examples, those included whose context is too short to be changed ("changed"
    counts the others), as in Sankar et al.
    2019. "distance" is averaged over the examples that have a turn at this distance, "examples" of
    them. Changes that change no context are left out. Every distinct context of an example is
    scored once. Each change in bits per byte is also given without each dialogue ("left_out"), for
    intervals over dialogues.

    Args:
        examples: A sample, with whole dialogues.
        score: Returns the likelihood of the reference of each example.
    """
    changes = {name: [perturb(example, name) for example in examples] for name in PERTURBATIONS}
    changes[RANDOM] = with_random_contexts(examples)
    distances = {
        distance: [drop_at_distance(example, distance) for example in examples]
        for distance in range(1, DISTANCES + 1)
    }
    table = _scored([examples, *changes.values(), *distances.values()], score)
    plain = [table[_key(example)] for example in examples]
    perturbations = []
    for name, variants in changes.items():
        changed = sum(
            _key(variant) != _key(example)
            for variant, example in zip(variants, examples, strict=True)
        )
        if changed:
            scored = [table[_key(variant)] for variant in variants]
            perturbations.append(
                {"perturbation": name, "changed": changed, **_change(examples, plain, scored)}
            )
    by_distance = []
    for distance, shortened in distances.items():
        rows = [
            (row, table[_key(variant)])
            for row, variant in enumerate(shortened)
            if variant is not None
        ]
        if rows:
            kept = [row for row, _ in rows]
            having = [examples[row] for row in kept]
            before = [plain[row] for row in kept]
            change = _change(having, before, [scored for _, scored in rows])
            by_distance.append({"distance": distance, "examples": len(rows), **change})
    return {
        "plain": _values(examples, plain),
        "perturbations": perturbations,
        "distance": by_distance,
    }


Key = tuple[str, tuple[tuple[str, str], ...]]


def _key(example: Example) -> Key:
    return example.id, tuple((turn.speaker, turn.text) for turn in example.context)


def _scored(lists: Sequence[Sequence[Example | None]], score: Score) -> dict[Key, Likelihood]:
    distinct = {
        _key(variant): variant for variants in lists for variant in variants if variant is not None
    }
    return dict(zip(distinct, score(list(distinct.values())), strict=True))


def _values(examples: Sequence[Example], scored: Sequence[Likelihood]) -> dict[str, float]:
    nll, tokens = (sum(column) for column in zip(*scored, strict=True))
    bits = BitsPerByte()
    perplexity = PerplexityToken()
    size = sum(map(_bytes, examples))
    return {
        "bits_per_byte": bits.value(nll, size, 0),
        "perplexity_token": perplexity.value(nll, tokens),
    }


def _change(
    examples: Sequence[Example], plain: Sequence[Likelihood], scored: Sequence[Likelihood]
) -> dict[str, float | list[float]]:
    """Return the changes, and that in bits per byte without each dialogue, in order of appearance
    ("left_out").
    """
    before = _values(examples, plain)
    after = _values(examples, scored)
    numbers: dict[str, int] = {}
    dialogues = [numbers.setdefault(example.dialogue_id, len(numbers)) for example in examples]
    nats = np.bincount(
        dialogues, [new.nll - old.nll for new, old in zip(scored, plain, strict=True)]
    )
    sizes = np.bincount(dialogues, [*map(_bytes, examples)])
    left_out = BitsPerByte().value(nats.sum() - nats, sizes.sum() - sizes, 0)
    return {**{key: after[key] - before[key] for key in before}, "left_out": left_out.tolist()}


def _bytes(example: Example) -> int:
    return len(example.response.text.encode())
