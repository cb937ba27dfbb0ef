"""How an example lies in token ids: the one place that the store and text given later share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from dialog.data.dialogue import Example
from dialog.data.tokenizer import BOS, EOS, OTHER, SELF, Tokenizer

Integers = NDArray[np.int64]


def source_ids(turns: Iterable[tuple[bool, Sequence[int]]], *, max_source: int) -> list[int]:
    """`<self> ids <other> ids ... </s>`, cut from the left to `max_source` ids.

    Args:
        turns: Of each turn of the context, whether the responder says it, and its token ids.
        max_source: The most ids, at least 1: the end always stays.
    """
    ids: list[int] = []
    for own, turn in turns:
        ids.append(SELF if own else OTHER)
        ids.extend(turn)
    ids.append(EOS)
    return ids[-max_source:]


def target_ids(response: Sequence[int], *, max_target: int | None) -> list[int]:
    """`<s> ids </s>`, the ids cut from the right so that ids and `</s>` are at most `max_target`; None cuts nothing."""
    kept = response if max_target is None else response[: max_target - 1]
    return [BOS, *kept, EOS]


def encode_example(
    tokenizer: Tokenizer, example: Example, *, max_source: int, max_target: int | None
) -> tuple[list[int], list[int]]:
    """Source and target ids of an example; a `max_target` is for training only, since cut references score too well."""
    *context, response = tokenizer.encode_batch([turn.text for turn in (*example.context, example.response)])
    own = [turn.speaker == example.response.speaker for turn in example.context]
    source = source_ids(zip(own, context, strict=True), max_source=max_source)
    return source, target_ids(response, max_target=max_target)


def source_lengths(offsets: Integers, examples: Integers) -> Integers:
    """Lengths [N] of the uncut `source_ids` of examples.

    Args:
        offsets: Where each turn's ids start, and at last where they end [turns + 1].
        examples: First turn of the context, response [N, 2].
    """
    first, response = examples[:, 0], examples[:, 1]
    return offsets[response] - offsets[first] + (response - first) + 1


def target_lengths(offsets: Integers, examples: Integers) -> Integers:
    """Lengths [N] of the uncut `target_ids` of examples without `<s>`; arguments as in `source_lengths`."""
    response = examples[:, 1]
    return offsets[response + 1] - offsets[response] + 1
