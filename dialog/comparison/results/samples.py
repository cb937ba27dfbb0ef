"""Examples of a comparison: random ones, and those on which contenders differ most."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from dialog.metrics.scores.likelihood import BitsPerByteScore
from dialog.report.formats.results import ShownExample

SHARED = ("id", "context", "reference")
"""Fields of responses.jsonl that are equal for all models."""
SAMPLES = 12
"""Examples of each kind that a report shows."""
SHORTEST = 4
"""Words of a reference below which its likelihood is left out of the examples that differ most."""

Rows = Sequence[Mapping[str, Any]]
"""Lines of a responses.jsonl; those of all contenders are in one order."""


def sample_at(
    place: int, contenders: Sequence[Rows], bits_per_byte: Sequence[float | None] = ()
) -> ShownExample:
    """Return an example with the response of each contender."""
    row = contenders[0][place]
    responses = tuple(rows[place]["response"] for rows in contenders)
    return ShownExample(
        row["id"], tuple(row["context"]), row["reference"], responses, tuple(bits_per_byte)
    )


def draw_samples(contenders: Sequence[Rows]) -> tuple[ShownExample, ...]:
    """Draw `SAMPLES` examples, from those with a context if any has one."""
    eligible = with_context(contenders[0])
    chosen = sorted(random.Random(0).sample(eligible, min(SAMPLES, len(eligible))))
    return tuple(sample_at(place, contenders) for place in chosen)


def with_context(rows: Rows) -> list[int]:
    """Return the places of examples with a context; all places if none has one."""
    return [place for place, row in enumerate(rows) if row["context"]] or list(range(len(rows)))


def disagreements(contenders: Sequence[Rows], *, count: int = SAMPLES) -> tuple[ShownExample, ...]:
    """Return the examples whose references the contenders find most differently likely.

    Each has the bits per byte of its reference by contender, None without likelihoods.

    Each contender with likelihoods is the best one in an equal number of them, if there are enough.
    References of fewer than `SHORTEST` words are left out. Empty unless two contenders have
    likelihoods.
    """
    scored = [all("nll" in row for row in rows) for rows in contenders]
    if sum(scored) < 2:
        return ()
    metric = BitsPerByteScore()
    differing: dict[int, list[tuple[float, int, list[float | None]]]] = {
        n: [] for n, has in enumerate(scored) if has
    }
    for place, row in enumerate(contenders[0]):
        if len(row["reference"].split()) >= SHORTEST:
            size = len(row["reference"].encode())
            own = [
                rows[place] if has else None for rows, has in zip(contenders, scored, strict=True)
            ]
            bits = [
                None
                if line is None
                else metric.value(line["nll"], size, line.get("reference_unknown_bytes", 0))
                for line in own
            ]
            values = [value for value in bits if value is not None]
            differing[bits.index(min(values))].append((max(values) - min(values), place, bits))
    share = -(-count // len(differing))
    best = [
        entry for entries in differing.values() for entry in sorted(entries, reverse=True)[:share]
    ]
    return tuple(sample_at(place, contenders, bits) for _, place, bits in best[:count])
