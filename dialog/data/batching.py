"""Examples side by side, padded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dialog.data.tokenizers.tokenizer import PAD

Integers = NDArray[np.int64]


class Batch(NamedTuple):
    """Examples padded on the right, and how many of their tokens are real."""

    source: Tensor  # [B, S]
    target: Tensor  # [B, T + 1], <s> ... </s>
    rows: Tensor  # [B], the examples' indices in their split
    source_tokens: int
    target_tokens: int  # ids and </s>: what is predicted
    target_bytes: int  # of the responses' text in UTF-8
    facts: Tensor  # [B], number of leading source tokens that are facts


def collate(
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]],
    rows: Sequence[int],
    *,
    facts: Sequence[int] | None = None,
    target_bytes: int = 0,
) -> Batch:
    """Put (source ids, target ids) of examples into a batch; `facts` is how many ids of each source are facts."""
    sources, targets = zip(*pairs, strict=True)
    known = np.zeros(len(sources), dtype=np.int64) if facts is None else np.asarray(facts, dtype=np.int64)
    chosen = np.asarray(rows, dtype=np.int64)
    return pack(_padded(sources), _padded(targets), known, chosen, target_bytes=target_bytes)


def pack(source: Integers, target: Integers, facts: Integers, rows: Integers, *, target_bytes: int) -> Batch:
    """A batch of padded sources [B, S], which begin with so many ids of facts [B], and targets [B, T + 1]."""
    return Batch(
        source=torch.from_numpy(source),
        target=torch.from_numpy(target),
        rows=torch.from_numpy(rows),
        source_tokens=int(np.count_nonzero(source != PAD)),
        target_tokens=int(np.count_nonzero(target != PAD)) - len(target),
        target_bytes=target_bytes,
        facts=torch.from_numpy(facts),
    )


def _padded(sequences: Sequence[Sequence[int]]) -> Integers:
    padded = np.full((len(sequences), max(map(len, sequences))), PAD, dtype=np.int64)
    for row, ids in enumerate(sequences):
        padded[row, : len(ids)] = ids
    return padded
