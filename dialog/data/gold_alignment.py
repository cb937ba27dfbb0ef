"""Gold alignment between response and source tokens, from the copies that a corpus records."""

from __future__ import annotations

from itertools import accumulate

from dialog.data.dialogue import Example
from dialog.data.store.layout import ROLES
from dialog.data.tokenizers.tokenizer import Tokenizer

Span = tuple[int, int]


def alignment(
    tokenizer: Tokenizer, example: Example, *, max_source: int, layout: str = ROLES
) -> dict[int, int]:
    """Map positions of response tokens (0 is the first after `<s>`) to the source positions that
    they copy.

    A token is aligned if its span starts inside a copy: to the source token that covers the
    corresponding character. If several tokens cover one character, the n-th response token aligns
    to the n-th source token. Source positions are those of `source_ids`, truncated to `max_source`.
    Copies from turns outside the context or from truncated tokens are left out. The first of
    overlapping copies counts.
    """
    if layout != ROLES:
        with_roles = alignment(tokenizer, example, max_source=max_source + 2)
        return {target: source - 1 for target, source in with_roles.items()}
    context = [tokenizer.offsets(turn.text) for turn in example.context]
    # of each turn's role token
    starts = list(accumulate((1 + len(spans) for spans in context), initial=0))
    facts = min(
        sum(1 + len(tokenizer.offsets(fact.text)) for fact in example.facts), max_source // 2
    )
    truncated = max(0, starts[-1] + facts + 1 - max_source)
    first_with_start: dict[int, int] = {}
    aligned: dict[int, int] = {}
    for target, (start, _) in enumerate(tokenizer.offsets(example.response.text)):
        nth = target - first_with_start.setdefault(start, target)
        for copy in example.response.copies:
            turn = copy.turn - example.first
            if not (copy.start <= start < copy.end and 0 <= turn < len(context)):
                continue
            character = copy.source + start - copy.start
            covering = [
                index
                for index, (begin, end) in enumerate(context[turn])
                if begin <= character < end
            ]
            if covering:
                token = covering[min(nth, len(covering) - 1)]
                source = starts[turn] + 1 + token - truncated
                if source > 0:  # a role is at 0
                    aligned.setdefault(target, facts + source)
    return aligned
