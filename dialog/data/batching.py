"""A batch: examples as padded tensors."""

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
    """Right-padded examples, and the number of their real tokens."""

    source: Tensor  # [B, S]
    target: Tensor  # [B, T + 1], <s> ... </s>
    rows: Tensor  # [B], indices of the examples in their split
    source_tokens: int
    target_tokens: int  # ids and </s>: the predicted tokens
    target_bytes: int  # UTF-8 length of the responses
    facts: Tensor  # [B], number of leading source tokens that are facts
    target_unknown_bytes: int = 0  # UTF-8 length of the text of the responses that is encoded as <unk>


def collate(
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]],
    rows: Sequence[int],
    *,
    facts: Sequence[int] | None = None,
    target_bytes: int = 0,
    target_unknown_bytes: int = 0,
) -> Batch:
    """Return a batch of (source ids, target ids) pairs; `facts` is the number of ids of each source that are facts."""
    sources, targets = zip(*pairs, strict=True)
    lengths = np.zeros(len(sources), dtype=np.int64) if facts is None else np.asarray(facts, dtype=np.int64)
    indices = np.asarray(rows, dtype=np.int64)
    return pack(
        _pad(sources),
        _pad(targets),
        lengths,
        indices,
        target_bytes=target_bytes,
        target_unknown_bytes=target_unknown_bytes,
    )


def pack(
    source: Integers,
    target: Integers,
    facts: Integers,
    rows: Integers,
    *,
    target_bytes: int,
    target_unknown_bytes: int,
) -> Batch:
    """Return a batch of padded sources [B, S] and targets [B, T + 1]; `facts` [B] are the lengths of their facts."""
    return Batch(
        source=torch.from_numpy(source),
        target=torch.from_numpy(target),
        rows=torch.from_numpy(rows),
        source_tokens=int(np.count_nonzero(source != PAD)),
        target_tokens=int(np.count_nonzero(target != PAD)) - len(target),
        target_bytes=target_bytes,
        facts=torch.from_numpy(facts),
        target_unknown_bytes=target_unknown_bytes,
    )


def _pad(sequences: Sequence[Sequence[int]]) -> Integers:
    padded = np.full((len(sequences), max(map(len, sequences))), PAD, dtype=np.int64)
    for row, ids in enumerate(sequences):
        padded[row, : len(ids)] = ids
    return padded
