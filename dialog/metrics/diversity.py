"""Diversity and length of responses.

Except for the length, the values depend on the number of responses (distinct-1 of the human responses of DailyDialog:
.203 for 500 responses, .070 for 6,740). Compare equal numbers of responses only, next to the value of the references.
Words are lower-cased and split at white space.
"""

from __future__ import annotations

from collections.abc import Sequence


def distinct_1(responses: Sequence[str], references: Sequence[str] = ()) -> float:
    """Distinct-1 = distinct words / words of all responses, in [0, 1]; 0 without words. Li et al. (2016), NAACL."""
    return _distinct(responses, 1)


def distinct_2(responses: Sequence[str], references: Sequence[str] = ()) -> float:
    """Distinct-2 = distinct bigrams / bigrams of all responses, in [0, 1]; 0 without bigrams. Li et al. (2016), NAACL.

    A bigram never spans two responses.
    """
    return _distinct(responses, 2)


def length_mean(responses: Sequence[str], references: Sequence[str] = ()) -> float:
    """Mean length = words / responses; 0 without responses."""
    return sum(len(response.split()) for response in responses) / max(len(responses), 1)


def unique_ratio(responses: Sequence[str], references: Sequence[str] = ()) -> float:
    """Unique-output ratio = distinct responses / responses, in [0, 1]; 0 without responses."""
    distinct = {tuple(response.lower().split()) for response in responses}
    return len(distinct) / max(len(responses), 1)


def _distinct(responses: Sequence[str], order: int) -> float:
    ngrams = [ngram for response in responses for ngram in _ngrams(response.lower().split(), order)]
    return len(set(ngrams)) / max(len(ngrams), 1)


def _ngrams(words: Sequence[str], order: int) -> zip[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(order)), strict=False)
