"""Examples side by side, padded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dialog.data.tokenizer import OTHER, PAD, SELF

Integers = NDArray[np.int64]


class Batch(NamedTuple):
    """Examples padded on the right, and how many of their tokens are real."""

    source: Tensor  # [B, S]
    target: Tensor  # [B, T + 1], <s> ... </s>
    rows: Tensor  # [B], the examples' indices in their split
    source_tokens: int
    target_tokens: int  # ids and </s>: what is predicted
    target_bytes: int  # of the responses' text in UTF-8
    last_turn: int  # tokens of the longest last turn of a context


def collate(
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]], rows: Sequence[int], *, target_bytes: int = 0
) -> Batch:
    """Put (source ids, target ids) of examples into a batch."""
    sources, targets = zip(*pairs, strict=True)
    return pack(_padded(sources), _padded(targets), np.asarray(rows, dtype=np.int64), target_bytes=target_bytes)


def pack(source: Integers, target: Integers, rows: Integers, *, target_bytes: int) -> Batch:
    """A batch of padded sources [B, S] and targets [B, T + 1]."""
    read = (source != PAD).sum(1)
    sources = torch.from_numpy(source)
    return Batch(
        source=sources,
        target=torch.from_numpy(target),
        rows=torch.from_numpy(rows),
        source_tokens=int(read.sum()),
        target_tokens=int(np.count_nonzero(target != PAD)) - len(target),
        target_bytes=target_bytes,
        last_turn=int((read - 1 - last_starts(sources).numpy()).max()),
    )


def last_starts(source: Tensor) -> Tensor:
    """Where the ids of the last turn of each `<self> ids <other> ids ... </s>` [B, S] begin [B]; 0 if it was cut."""
    places = torch.arange(1, source.shape[1] + 1, device=source.device)  # [S]
    return torch.where((source == SELF) | (source == OTHER), places, 0).amax(1)  # [B]


def _padded(sequences: Sequence[Sequence[int]]) -> Integers:
    padded = np.full((len(sequences), max(map(len, sequences))), PAD, dtype=np.int64)
    for row, ids in enumerate(sequences):
        padded[row, : len(ids)] = ids
    return padded
