"""Where in the source the tokens of a response come from, for corpora that know."""

from __future__ import annotations

from itertools import accumulate

from dialog.data.dialogue import Example
from dialog.data.tokenizers.tokenizer import Tokenizer

Span = tuple[int, int]


def alignment(tokenizer: Tokenizer, example: Example, *, max_source: int) -> dict[int, int]:
    """Map positions of response tokens (0 is the first after `<s>`) to the source positions that they repeat.

    A token is mapped when its span starts inside a copy: to the source token with the corresponding character, the
    n-th of several such tokens for the n-th token of the response that starts there. Source positions are those of
    `source_ids`, counted after the cut to `max_source`. Left out: what is repeated from outside the window or from
    what was cut. Where copies overlap the first counts.
    """
    context = [tokenizer.offsets(turn.text) for turn in example.context]
    starts = list(accumulate((1 + len(spans) for spans in context), initial=0))  # of each turn's role token
    facts = min(sum(1 + len(tokenizer.offsets(fact.text)) for fact in example.facts), max_source // 2)
    cut = max(0, starts[-1] + facts + 1 - max_source)
    spans = tokenizer.offsets(example.response.text)
    first_there: dict[int, int] = {}
    pairs: dict[int, int] = {}
    for target, (start, _) in enumerate(spans):
        nth = target - first_there.setdefault(start, target)
        for copy in example.response.copies:
            turn = copy.turn - example.first
            if not (copy.start <= start < copy.end and 0 <= turn < len(context)):
                continue
            token = _token_at(context[turn], copy.source + start - copy.start, nth)
            if token is not None and (source := starts[turn] + 1 + token - cut) >= 0:
                pairs.setdefault(target, facts + source)
    return pairs


def _token_at(spans: list[Span], char: int, nth: int) -> int | None:
    covering = [index for index, (start, end) in enumerate(spans) if start <= char < end]
    return covering[min(nth, len(covering) - 1)] if covering else None
