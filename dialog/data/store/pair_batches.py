"""Batches of encoded examples in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dialog.data.store.length_classes import by_length
from dialog.data.store.plan import Plan


def pair_batches(
    pairs: Sequence[tuple[list[int], list[int]]], budget: int
) -> Iterator[NDArray[np.int64]]:
    """Yield the places [B] of the pairs of each batch: of similar length, at most ``budget`` padded
    tokens.

    A decoder reads all target ids but the last, so a target counts without it.
    """
    sources, targets = (np.array([len(ids) for ids in side]) for side in zip(*pairs, strict=True))
    return Plan(by_length(sources, targets - 1), budget=budget).batches()
