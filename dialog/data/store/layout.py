"""Layout of an example as token ids, the same for prepared data and for text at inference.

Shapes: B rows, N examples, S source tokens, T target tokens.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dialog.data.dialogue import Example, Turn
from dialog.data.store.arrays import IntegerArray, StoredArray
from dialog.data.tokenizers.tokenizer import BOS, EOS, OTHER, PAD, SELF, UNK, Tokenizer

Integers = NDArray[np.int64]
RoleIds = Iterable[tuple[bool, Sequence[int]]]
"""For each line, whether it is the responder's, and its token ids."""

ROLES = "roles"
SEPARATED = "separated"
LAYOUTS = (ROLES, SEPARATED)
"""Layouts of a source: `<self> ids <other> ids </s>`, or `ids <unk> ids` without roles and end
token.

`separated` is ParlAI's context of lines joined by a line feed that the vocabulary lacks. A source
without ids is `<unk>`. It is built as `roles` with two more ids, of which the first and the last
are then removed.
"""


def source_ids(
    turns: RoleIds, *, max_source: int, facts: RoleIds = (), layout: str = ROLES
) -> list[int]:
    """Return `<self> ids <other> ids ... </s>`: the facts, the turns of the context and the end
    token.

    Facts are truncated from the right to `max_source // 2` ids, turns from the left to the rest of
    `max_source`. If that removes the beginning of a turn, its role replaces the first remaining id.

    Args:
        turns: The context; `<self>` precedes the responder's turns.
        max_source: Maximal number of ids, at least 1: the end token is always kept.
        facts: The facts that the responder knows; `<self>` precedes those of the responder alone.
        layout: A member of `LAYOUTS`.
    """
    max_source += _removed(layout)
    before = facts_ids(facts, max_source=max_source)
    turns = list(turns)
    context = _ids(turns)
    roles = [SELF if own else OTHER for own, ids in turns for _ in range(1 + len(ids))]
    start = max(0, len(context) - (max_source - len(before) - 1))
    ids = [*before, *roles[start : start + 1], *context[start + 1 :], EOS]
    return (
        ids
        if layout == ROLES
        else [UNK if token in (SELF, OTHER) else token for token in ids[1:-1]] or [UNK]
    )


def last_turn(source: Sequence[int], layout: str = ROLES) -> list[int]:
    """Return the ids of the last turn of a source, or what truncation leaves of it; padding may
    follow it.

    In the layout `separated` these are the ids after the last `<unk>` that others follow.
    """
    ids = [token for token in source if token not in (PAD, EOS)]
    if layout == ROLES:
        starts = [place + 1 for place, token in enumerate(ids) if token in (SELF, OTHER)]
    else:
        starts = [place for place in range(1, len(ids)) if ids[place - 1] == UNK != ids[place]]
    return ids[starts[-1] if starts else 0 :]


def facts_ids(facts: RoleIds, *, max_source: int) -> list[int]:
    """Return the ids of the facts, truncated as in `source_ids`."""
    return _ids(facts)[: max_source // 2]


def target_ids(response: Sequence[int], *, max_target: int | None) -> list[int]:
    """Return `<s> ids </s>`, truncated from the right to `max_target` ids with `</s>`; None
    truncates nothing.
    """
    kept = response if max_target is None else response[: max_target - 1]
    return [BOS, *kept, EOS]


def encode_example(
    tokenizer: Tokenizer,
    example: Example,
    *,
    max_source: int,
    max_target: int | None,
    layout: str = ROLES,
) -> tuple[list[int], list[int]]:
    """Return source and target ids; set `max_target` in training only, since truncated references
    score too well.
    """
    return encode_examples(
        tokenizer, [example], max_source=max_source, max_target=max_target, layout=layout
    )[0]


def encode_examples(
    tokenizer: Tokenizer,
    examples: Sequence[Example],
    *,
    max_source: int,
    max_target: int | None,
    layout: str = ROLES,
) -> list[tuple[list[int], list[int]]]:
    """Return `encode_example` of each; a text that several examples share is encoded once."""
    texts = {
        turn.text
        for example in examples
        for turn in (*example.facts, *example.context, example.response)
    }
    ids = dict(zip(texts, tokenizer.encode_batch([*texts]), strict=True))

    def lines(example: Example, turns: Sequence[Turn]) -> RoleIds:
        return [(turn.speaker == example.response.speaker, ids[turn.text]) for turn in turns]

    return [
        (
            source_ids(
                lines(example, example.context),
                max_source=max_source,
                facts=lines(example, example.facts),
                layout=layout,
            ),
            target_ids(ids[example.response.text], max_target=max_target),
        )
        for example in examples
    ]


def _ids(lines: RoleIds) -> list[int]:
    return [token for own, ids in lines for token in (SELF if own else OTHER, *ids)]


def _removed(layout: str) -> int:
    """Return the number of ids of the layout `roles` that this layout lacks: the first role and the
    end token.
    """
    return 0 if layout == ROLES else 2


# ------------------------------------------------------------------ batches


class Lines(NamedTuple):
    """The lines of a split, concatenated: for each dialogue its facts, then its turns."""

    ids: StoredArray  # of each line: an entry that stands for its role, then its tokens
    offsets: IntegerArray  # [lines + 1]: start of each line in ids, and the end
    speakers: IntegerArray  # [lines]


class Spans(NamedTuple):
    """Start in `Lines.ids`, roles included, and length of the facts, context and response of
    examples [N].
    """

    facts: Integers
    facts_length: Integers
    context: Integers
    context_length: Integers
    response: Integers
    response_length: Integers

    @property
    def source_lengths(self) -> Integers:
        """Length of each source in the layout `roles`, with the end token [N]."""
        return self.facts_length + self.context_length + 1

    def lengths_in(self, layout: str) -> Integers:
        """Return the length of each source [N]."""
        lengths: Integers = np.maximum(self.source_lengths - _removed(layout), 1)
        return lengths

    @property
    def target_lengths(self) -> Integers:
        """Length of each target without `<s>` [N]: the number of predicted tokens."""
        return self.response_length


def truncate(
    offsets: IntegerArray,
    examples: Integers,
    *,
    max_source: int | None,
    max_target: int | None,
    layout: str = ROLES,
) -> Spans:
    """Return the spans of examples, truncated as in `source_ids` and `target_ids`; None truncates
    nothing.

    Args:
        offsets: As in `Lines`.
        examples: Line numbers [N, 4]: first fact, end of the facts, first turn of the context,
            response.
        max_source: Maximal source ids.
        max_target: Maximal target ids, without `<s>`.
        layout: A member of `LAYOUTS`.
    """
    limit = sys.maxsize if max_source is None else max_source + _removed(layout)
    facts, facts_end, context, response = offsets[examples.T]
    end = offsets[examples[:, 3] + 1]
    facts_length = np.minimum(facts_end - facts, limit // 2)
    context_length = np.minimum(response - context, limit - facts_length - 1)
    response_length = np.minimum(end - response, sys.maxsize if max_target is None else max_target)
    return Spans(
        facts, facts_length, response - context_length, context_length, response, response_length
    )


def padded_pairs(
    lines: Lines,
    examples: Integers,
    *,
    max_source: int,
    max_target: int | None,
    layout: str = ROLES,
) -> tuple[Integers, Integers, Integers]:
    """Return right-padded sources [B, S] and targets [B, T + 1], and lengths of the facts [B]; args
    as `truncate`.
    """
    spans = truncate(
        lines.offsets, examples, max_source=max_source, max_target=max_target, layout=layout
    )
    source = _sources(lines, spans)
    speakers = lines.speakers[examples[:, 3]]
    shift = spans.facts_length - spans.context
    _set_roles(
        source, lines, examples[:, 2:], speakers, shift, (spans.facts_length, spans.source_lengths)
    )
    if spans.facts_length.any():
        bounds = np.zeros_like(shift), spans.facts_length
        _set_roles(source, lines, examples[:, :2], speakers, -spans.facts, bounds)
    target = _gather(lines.ids, spans.response[:, None], spans.response_length)
    target[:, 0] = BOS
    target[np.arange(len(target)), spans.target_lengths] = EOS
    if layout == ROLES:
        return source, target, spans.facts_length
    return _separated(source, spans.source_lengths), target, np.maximum(spans.facts_length - 1, 0)


def _separated(source: Integers, lengths: Integers) -> Integers:
    """Convert right-padded sources [B, S] of these lengths [B] from the layout `roles`."""
    source = np.where((source == SELF) | (source == OTHER), UNK, source)
    source[np.arange(len(source)), lengths - 1] = PAD
    source = np.pad(source, ((0, 0), (0, 1)), constant_values=PAD)[
        :, 1 : max(2, int(lengths.max()) - 1)
    ]
    source[lengths <= _removed(SEPARATED), 0] = UNK
    return source


def _sources(lines: Lines, spans: Spans) -> Integers:
    starts = (spans.context - spans.facts_length)[:, None]
    if spans.facts_length.any():
        columns = np.arange(spans.source_lengths.max())
        starts = np.where(columns < spans.facts_length[:, None], spans.facts[:, None], starts)
    source = _gather(lines.ids, starts, spans.source_lengths - 1)
    source[np.arange(len(source)), spans.source_lengths - 1] = EOS
    return source


def _gather(ids: StoredArray, starts: Integers, lengths: Integers) -> Integers:
    """Return `ids[starts : starts + lengths]` of each row, padded to the longest + 1; starts [B, 1]
    or [B, S].
    """
    columns = np.arange(lengths.max() + 1)
    taken = ids.take(starts + columns)
    taken[columns >= lengths[:, None]] = PAD
    return taken.astype(np.int64)


def _set_roles(
    source: Integers,
    lines: Lines,
    ranges: Integers,
    speakers: NDArray[Any],
    shift: Integers,
    bounds: tuple[Integers, Integers],
) -> None:
    """Write the roles of lines [first:end] to their first columns, offset + `shift`, within the
    row's bounds.
    """
    counts = ranges[:, 1] - ranges[:, 0]
    row = np.repeat(np.arange(len(counts)), counts)
    line = np.arange(len(row)) + np.repeat(ranges[:, 0] - np.cumsum(counts) + counts, counts)
    column = np.maximum(lines.offsets[line] + shift[row], bounds[0][row])
    inside = (column < lines.offsets[line + 1] + shift[row]) & (column < bounds[1][row])
    row = row[inside]
    column = column[inside]
    line = line[inside]
    source[row, column] = np.where(lines.speakers[line] == speakers[row], SELF, OTHER)


SEPARATORS = (SELF, OTHER, UNK)
PLACEHOLDER = 1 + max(*SEPARATORS, EOS)


class SourceLines(NamedTuple):
    """Lines of the tokens of a source."""

    lines: list[int]  # of each token: the index of its line, facts first; -1 for the end token
    separators: list[bool]  # of each token: whether it is a role or a separator of lines
    dropped: int  # number of tokens of the lines that were truncated


def lines_of_source(
    facts: Sequence[int], turns: Sequence[int], *, max_source: int, layout: str = ROLES
) -> SourceLines:
    """Return the line of each token of `source_ids` from the numbers of tokens of the facts and of
    the turns.
    """
    fact_ids, turn_ids = (
        [(True, [PLACEHOLDER] * length) for length in lengths] for lengths in (facts, turns)
    )
    ids = source_ids(turn_ids, max_source=max_source, facts=fact_ids, layout=layout)
    first = layout != ROLES  # its role is left out
    bound = max(
        0, len(facts_ids(fact_ids, max_source=max_source + 2 * LAYOUTS.index(layout))) - first
    )
    separators = [token in SEPARATORS for token in ids]
    end = len(ids) - (ids[-1] == EOS)
    lines = [-1] * len(ids)
    line = 0 if first and facts else -1
    for place in range(min(bound, end)):
        line += separators[place]
        lines[place] = line
    line = len(facts) + len(turns) - 1
    for place in reversed(range(bound, end)):
        lines[place] = line
        line -= separators[place]
    return SourceLines(lines, separators, sum(facts) + sum(turns) - ids.count(PLACEHOLDER))
