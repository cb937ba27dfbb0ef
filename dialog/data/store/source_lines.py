"""The line, fact or turn, to which each token of a source belongs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dialog.data.store.layout import LAYOUTS, ROLES, facts_ids, source_ids
from dialog.data.tokenizers.tokenizer import EOS, OTHER, SELF, UNK

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
