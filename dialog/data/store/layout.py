"""How an example lies in token ids: the one place that the store and text given later share.

Shapes: B rows, N examples, S source tokens, T target tokens.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dialog.data.dialogue import Example
from dialog.data.tokenizers.tokenizer import BOS, EOS, OTHER, PAD, SELF, Tokenizer

Integers = NDArray[np.int64]
Said = Iterable[tuple[bool, Sequence[int]]]
"""Of each line, whether it is the responder's, and its token ids."""


def source_ids(turns: Said, *, max_source: int, facts: Said = ()) -> list[int]:
    """`<self> ids <other> ids ... </s>`: the facts, the turns of the context and the end.

    Facts are cut from the right to `max_source // 2` ids, turns from the left to what then remains of `max_source`.

    Args:
        turns: The context; `<self>` stands before what the responder says.
        max_source: The most ids, at least 1: the end always stays.
        facts: What the responder knows; `<self>` stands before what nobody else does.
    """
    before, context = facts_ids(facts, max_source=max_source), _ids(turns)
    room = max_source - len(before) - 1
    return [*before, *context[max(0, len(context) - room) :], EOS]


def facts_ids(facts: Said, *, max_source: int) -> list[int]:
    """What `source_ids` keeps of the facts."""
    return _ids(facts)[: max_source // 2]


def target_ids(response: Sequence[int], *, max_target: int | None) -> list[int]:
    """`<s> ids </s>`, the ids cut from the right so that ids and `</s>` are at most `max_target`; None cuts nothing."""
    kept = response if max_target is None else response[: max_target - 1]
    return [BOS, *kept, EOS]


def encode_example(
    tokenizer: Tokenizer, example: Example, *, max_source: int, max_target: int | None
) -> tuple[list[int], list[int]]:
    """Source and target ids of an example; a `max_target` is for training only, since cut references score too well."""
    read = (*example.facts, *example.context)
    *before, response = tokenizer.encode_batch([turn.text for turn in (*read, example.response)])
    said = [(turn.speaker == example.response.speaker, ids) for turn, ids in zip(read, before, strict=True)]
    facts = len(example.facts)
    source = source_ids(said[facts:], max_source=max_source, facts=said[:facts])
    return source, target_ids(response, max_target=max_target)


def _ids(lines: Said) -> list[int]:
    return [token for own, ids in lines for token in (SELF if own else OTHER, *ids)]


# ------------------------------------------------------------------ many at a time


class Lines(NamedTuple):
    """The lines of a split, one after the other: turns, before them the facts that their dialogue begins with."""

    ids: NDArray[np.integer]  # of each line: a place for its role, its tokens
    offsets: Integers  # [lines + 1]: where in ids each line starts, and the end
    speakers: NDArray[np.integer]  # [lines]


class Kept(NamedTuple):
    """What the limits leave of examples: where in ids each part starts, roles included, and its length [N]."""

    facts: Integers
    facts_length: Integers
    context: Integers
    context_length: Integers
    response: Integers
    response_length: Integers

    @property
    def source_lengths(self) -> Integers:
        """Length of each source [N]."""
        return self.facts_length + self.context_length + 1

    @property
    def target_lengths(self) -> Integers:
        """Length of each target without `<s>` [N]: the tokens that are predicted."""
        return self.response_length


def kept(offsets: Integers, examples: Integers, *, max_source: int | None, max_target: int | None) -> Kept:
    """What `source_ids` and `target_ids` keep of examples; None cuts nothing.

    Args:
        offsets: As in `Lines`.
        examples: Lines [N, 4]: first fact, end of the facts, first turn of the context, response.
        max_source: The most source ids.
        max_target: The most target ids, without `<s>`.
    """
    most = sys.maxsize if max_source is None else max_source
    facts, facts_end, context, response = offsets[examples.T]
    end = offsets[examples[:, 3] + 1]
    facts_length = np.minimum(facts_end - facts, most // 2)
    context_length = np.minimum(response - context, most - facts_length - 1)
    response_length = np.minimum(end - response, sys.maxsize if max_target is None else max_target)
    return Kept(facts, facts_length, response - context_length, context_length, response, response_length)


def padded_pairs(
    lines: Lines, examples: Integers, *, max_source: int, max_target: int | None
) -> tuple[Integers, Integers, Integers]:
    """Sources [B, S] and targets [B, T + 1] of examples, padded on the right, and ids of facts [B]; as in `kept`."""
    parts = kept(lines.offsets, examples, max_source=max_source, max_target=max_target)
    source = _sources(lines, parts)
    speakers = lines.speakers[examples[:, 3]]
    shift = parts.facts_length - parts.context
    _set_roles(source, lines, examples[:, 2:], speakers, shift, (parts.facts_length, parts.source_lengths))
    if parts.facts_length.any():
        bounds = np.zeros_like(shift), parts.facts_length
        _set_roles(source, lines, examples[:, :2], speakers, -parts.facts, bounds)
    target = _gathered(lines.ids, parts.response[:, None], parts.response_length)
    target[:, 0] = BOS
    target[np.arange(len(target)), parts.target_lengths] = EOS
    return source, target, parts.facts_length


def _sources(lines: Lines, parts: Kept) -> Integers:
    starts = (parts.context - parts.facts_length)[:, None]
    if parts.facts_length.any():
        columns = np.arange(parts.source_lengths.max())
        starts = np.where(columns < parts.facts_length[:, None], parts.facts[:, None], starts)
    source = _gathered(lines.ids, starts, parts.source_lengths - 1)
    source[np.arange(len(source)), parts.source_lengths - 1] = EOS
    return source


def _gathered(ids: NDArray[np.integer], starts: Integers, lengths: Integers) -> Integers:
    """`ids[starts : starts + lengths]` of each row, padded to one more than the longest; starts [B, 1] or [B, S]."""
    columns = np.arange(lengths.max() + 1)
    taken = ids.take(starts + columns, mode="clip")
    taken[columns >= lengths[:, None]] = PAD
    return taken.astype(np.int64)


def _set_roles(
    source: Integers,
    lines: Lines,
    ranges: Integers,
    speakers: NDArray[np.integer],
    shift: Integers,
    bounds: tuple[Integers, Integers],
) -> None:
    """Write roles where lines [first:end] start: in column offset + `shift`, where that is within the row's bounds."""
    counts = ranges[:, 1] - ranges[:, 0]
    row = np.repeat(np.arange(len(counts)), counts)
    line = np.arange(len(row)) + np.repeat(ranges[:, 0] - np.cumsum(counts) + counts, counts)
    column = lines.offsets[line] + shift[row]
    shown = (column >= bounds[0][row]) & (column < bounds[1][row])
    row, column, line = row[shown], column[shown], line[shown]
    source[row, column] = np.where(lines.speakers[line] == speakers[row], SELF, OTHER)
