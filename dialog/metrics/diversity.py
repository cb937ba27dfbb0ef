"""How much the responses differ from each other, and how long they are.

All but the length depend on how many responses there are (people's distinct-1 on DailyDialog is .203 for 500 responses
and .070 for 6740), so compare equal numbers only, with the references' own value beside them. Words are lower-cased
and split on white space.
"""

from __future__ import annotations

from collections.abc import Sequence


def distinct_1(responses: Sequence[str], references: Sequence[str] = ()) -> float:
    """Different words / words over all responses together (Li et al. 2016), in [0, 1]; no word at all gives 0."""
    return _distinct(responses, 1)


def distinct_2(responses: Sequence[str], references: Sequence[str] = ()) -> float:
    """Different pairs of neighbouring words / pairs over all responses together, in [0, 1]; no pair at all gives 0."""
    return _distinct(responses, 2)


def length_mean(responses: Sequence[str], references: Sequence[str] = ()) -> float:
    """Words a response; 0 without responses."""
    return sum(len(response.split()) for response in responses) / max(len(responses), 1)


def unique_ratio(responses: Sequence[str], references: Sequence[str] = ()) -> float:
    """Different responses / responses, in [0, 1]; 1 is never the same twice, 0 is no response at all."""
    different = {tuple(response.lower().split()) for response in responses}
    return len(different) / max(len(responses), 1)


def _distinct(responses: Sequence[str], order: int) -> float:
    grams = [gram for response in responses for gram in _grams(response.lower().split(), order)]
    return len(set(grams)) / max(len(grams), 1)


def _grams(words: Sequence[str], order: int) -> zip[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(order)), strict=False)
