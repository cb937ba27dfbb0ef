"""A batch: examples as padded tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dialog.data.tokenizers.tokenizer import BOS, OTHER, PAD, SELF, SPECIAL_TOKENS
from dialog.errors import UserError

Integers = NDArray[np.int64]


class Batch(NamedTuple):
    """Right-padded examples, and the number of their real tokens; `collate` builds it."""

    source: Tensor  # [B, S]
    target: Tensor  # [B, T + 1], <s> ... </s>
    rows: Tensor  # [B], indices of the examples in their split
    source_tokens: int
    target_tokens: int  # ids and </s>: the predicted tokens
    target_bytes: int  # UTF-8 length of the responses, 0 if unknown
    facts: Tensor  # [B], number of leading source tokens that are facts
    # UTF-8 length of the text of the responses that is encoded as <unk>
    target_unknown_bytes: int = 0
    # largest number of turns of a source, and of tokens of a turn, if known
    turn_shape: tuple[int, int] | None = None


def collate(
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]],
    rows: Sequence[int] | None = None,
    *,
    facts: Sequence[int] | None = None,
    target_bytes: int = 0,
    target_unknown_bytes: int = 0,
) -> Batch:
    """Pad (source ids, target ids) pairs to a batch, for any data loader.

    Args:
        pairs: A target is `<s> ids </s>`; a source, whatever ids the model reads.
        rows: Indices of the examples in their split, which errors and predictions name; 0, 1, ...
            if not given.
        facts: Number of leading ids of each source that are facts.
        target_bytes: UTF-8 length of the responses' text, the unit of bits per byte, which is left
            out without it.
        target_unknown_bytes: UTF-8 length of the part of that text which is encoded as `<unk>`.

    Raises:
        UserError: no pairs, a target that does not begin with `<s>`, or an id that is the
            padding's.
    """
    try:
        sources, targets = zip(*pairs, strict=True)
    except (TypeError, ValueError) as error:
        raise UserError(
            "collate: expected [(source_ids, target_ids), ...], at least one pair"
        ) from error
    for number, target in enumerate(targets):
        if len(target) < 2 or target[0] != BOS:
            start = SPECIAL_TOKENS[BOS]
            end = SPECIAL_TOKENS[BOS + 1]
            raise UserError(
                f"collate: target ids {number} are not {start} ({BOS}), ids, {end}:"
                f" {list(target)[:6]}"
            )
    lengths = (
        np.zeros(len(sources), dtype=np.int64)
        if facts is None
        else np.asarray(facts, dtype=np.int64)
    )
    indices = np.arange(len(sources)) if rows is None else np.asarray(rows, dtype=np.int64)
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
    """Return a batch of padded sources [B, S] and targets [B, T + 1]; `facts` [B] are the lengths
    of their facts.
    """
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


def with_turn_shape(batch: Batch) -> Batch:
    """Return the batch, on the host, with the ``turn_shape`` of its sources [B, S]."""
    source = batch.source.numpy()
    begins = (source == OTHER) | (source == SELF)
    begins[:, :1] = True
    lengths = np.add.reduceat((source != PAD).ravel(), np.flatnonzero(begins), dtype=np.int64)
    return batch._replace(turn_shape=(int(begins.sum(1).max()), max(1, int(lengths.max()))))


def check_batch(batch: object, padding: int, *, first: bool) -> None:
    """Check the type of a data loader's batch and its number of target tokens, which the training
    step relies on.

    On a GPU only the ``first`` batch is counted, since reading the count blocks.

    Raises:
        UserError: not a `Batch`, or a wrong number.
    """
    if not isinstance(batch, Batch):
        raise UserError(
            f"the data loader yields a {type(batch).__name__}, not a dialog.Batch; "
            "set its collate_fn to dialog.collate (docs/python.md)"
        )
    if first or batch.target.device.type == "cpu":
        tokens = int(torch.count_nonzero(batch.target[:, 1:] != padding))
        if tokens != batch.target_tokens:
            raise UserError(
                f"target_tokens of a batch is {batch.target_tokens}, but its target has {tokens}"
                " tokens after <s>; build batches with dialog.collate"
            )


def _pad(sequences: Sequence[Sequence[int]]) -> Integers:
    padded = np.full((len(sequences), max(map(len, sequences))), PAD, dtype=np.int64)
    for row, ids in enumerate(sequences):
        padded[row, : len(ids)] = ids
    if np.count_nonzero(padded) != sum(map(len, sequences)):
        raise UserError(f"collate: an id is {PAD}, which is padding; pass ids without padding")
    return padded
