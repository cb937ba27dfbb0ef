"""Overlap of responses with their references, in [0, 100]: F1, ROUGE-L, and the sentence BLEU of
PLATO.

Corpus BLEU is in `bleu.py`, chrF in `chrf.py`.
"""

from __future__ import annotations

import math
import re
import string
from abc import abstractmethod
from collections import Counter
from functools import lru_cache
from typing import Any

from dialog.metrics.scores.additive import Numbers, ResponseScore, ratio
from dialog.metrics.scores.bleu import ORDER, shared_ngrams
from dialog.metrics.words import words

_WIDE = "、。〃〈〉《》「」『』【】〔〕〖〗〘〙〚〛〜〝〞〟・！＂＃＄％＆＇（）＊＋，－．／：；＜＝＞？＠［＼］＾＿｀｛｜｝～｟｠｡｢｣､･"  # noqa: E501
"""Punctuation of Chinese and Japanese."""
_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation + _WIDE, " "))
_SEPARATORS = re.compile(r"[\W_]+")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


class MeanOverlapScore(ResponseScore):
    """Mean over responses of a score in [0, 1], in percent; 0 without responses."""

    higher_is_better: bool | None = True
    size = 2

    @abstractmethod
    def score(self, response: str, reference: str) -> float:
        """Return the score of one response in [0, 1]."""

    def statistics(self, response: str, reference: str) -> tuple[float, int]:
        """Return the score, and 1."""
        return self.score(response, reference), 1

    def value(self, score: Numbers, responses: Numbers) -> Numbers:
        """Return the mean in percent."""
        return 100 * ratio(score, responses, empty=0.0)


class F1Score(MeanOverlapScore):
    """Unigram F1 = mean over responses of 100 * 2 P R / (P + R), with multisets of words as in
    ParlAI.

    P = shared words / words of the response, R = shared words / words of the reference; 0 without
    shared words, and without responses. Normalisation as in parlai/core/metrics.py: lower case,
    punctuation (ASCII, Chinese and Japanese) to spaces, English articles removed. Words are split
    at white space; each letter of a script without spaces is one.
    """

    def score(self, response: str, reference: str) -> float:
        """Return the F1 of a response in [0, 1]."""
        own = _counts(response)
        gold = _counts(reference)
        shared = (own & gold).total()
        return 2 * shared / (own.total() + gold.total()) if shared else 0.0


class RougeLScore(MeanOverlapScore):
    """ROUGE-L = mean over responses of 100 * 2 P R / (P + R). Lin (2004), ACL workshop.

    P = L / words of the response, R = L / words of the reference, with L the length of their
    longest common subsequence of words. Words are lower-cased maximal runs of letters and digits,
    without stemming, as in the rouge_score library; each letter of a script without spaces is a
    word.
    """

    def score(self, response: str, reference: str) -> float:
        """Return the F1 of a response in [0, 1]."""
        own, gold = (words(_SEPARATORS.sub(" ", text.lower())) for text in (response, reference))
        shared = longest_common_subsequence(own, gold)
        return 2 * shared / (len(own) + len(gold)) if shared else 0.0


class PlatoBLEUScore(MeanOverlapScore):
    """Mean over responses of NLTK's sentence BLEU-n with SmoothingFunction.method7, as in PLATO
    (Bao et al. 2020).

    Words are lower-cased and split at white space; each letter of a script without spaces is a
    word. A response without a word of the reference scores 0. The smoothing (Chen & Cherry 2014,
    WMT) gives random responses 15 of 100 for BLEU-2: compare only with figures of this
    implementation.

    Args:
        n: Words of the longest n-gram, 1 to 4; the precisions of 1 to n have equal weights.
    """

    def __init__(self, n: int, **options: Any) -> None:
        if not 1 <= n <= ORDER:
            raise ValueError(f"n is {n}; give 1 to {ORDER}")
        super().__init__(**options)
        self.n = n

    def score(self, response: str, reference: str) -> float:
        """Return the smoothed sentence BLEU in [0, 1.34]: the smoothing lifts a copy of the
        reference above 1.
        """
        precisions, penalty = smoothed_precisions(response, reference)
        return (
            math.exp(sum(map(math.log, precisions[: self.n])) / self.n + penalty)
            if precisions
            else 0.0
        )


@lru_cache(maxsize=8192)
def smoothed_precisions(response: str, reference: str) -> tuple[list[float], float]:
    """Return smoothed precisions, empty without a shared word, and the brevity penalty; remembered
    for all orders.
    """
    own = words(response.lower())
    gold = words(reference.lower())
    matches = shared_ngrams(own, gold, ORDER + 1)
    if not matches[0]:
        return [], 0.0
    totals = [max(1, len(own) - n) for n in range(ORDER + 1)]
    return smooth(matches, totals, len(own)), min(0.0, 1 - len(gold) / len(own))


def smooth(matches: list[int], totals: list[int], length: int) -> list[float]:
    """Return precisions of orders 1 to 4 from those of 1 to 5, smoothed by methods 4 and 5 of Chen
    & Cherry (2014).

    Method 4: the k-th order without a match gets ln(length) / (5 * 2^k) matches, if the response
        has several words.
    Method 5: p_n becomes the mean of the new p_(n-1), p_n and p_(n+1), where p_0 = p_1 + 1.
    """
    precisions = [match / total for match, total in zip(matches, totals, strict=True)]
    zeros = 0
    for place in range(ORDER):
        if not matches[place] and length > 1:
            zeros += 1
            precisions[place] = math.log(length) / (5 * 2**zeros * totals[place])
    smoothed = [precisions[0] + 1]
    for place in range(ORDER):
        smoothed.append((smoothed[-1] + precisions[place] + precisions[place + 1]) / 3)
    return smoothed[1:]


def longest_common_subsequence(first: list[str], second: list[str]) -> int:
    """Return the length of the longest common subsequence, by bit-parallel dynamic programming
    (Hyyro 2004).
    """
    places: dict[str, int] = {}
    for place, word in enumerate(second):
        places[word] = places.get(word, 0) | 1 << place
    every = (1 << len(second)) - 1
    row = every
    for word in first:
        matches = row & places.get(word, 0)
        row = (row + matches) | (row - matches)
    return (~row & every).bit_count()


def _counts(text: str) -> Counter[str]:
    return Counter(words(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION))))
