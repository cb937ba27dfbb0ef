"""Diversity and length of responses.

Except for the length, the values depend on the number of responses (distinct-1 of the human
responses of DailyDialog: .203 for 500 responses, .070 for 6,740). Compare equal numbers of
responses only, next to the value of the references. Words are lower-cased and split at white space;
each letter of a script without spaces is a word.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dialog.metrics.scores.additive import AdditiveScore, Numbers, Statistics, ratio
from dialog.metrics.scores.counts import NgramScore, WholeResponseScore
from dialog.metrics.words import words

Floats = NDArray[np.float64]
Counts = NDArray[np.int64] | NDArray[np.float64]
"""Occurrences of each item [..., types]; zeros are allowed."""
VOCABULARY = 30_522
"""Vocabulary of expectation-adjusted distinct-n: that of BERT (Devlin et al. 2019), whatever the
system and corpus.
"""


class DistinctNScore(NgramScore):
    """Distinct-n = distinct n-grams / n-grams of all responses, in [0, 1]. Li et al. (2016), NAACL.

    Args:
        n: Words of an n-gram.
    """

    def value(self, counts: Counts) -> Numbers:
        """Return the ratio; 0 without n-grams."""
        return ratio(np.count_nonzero(counts, axis=-1), counts.sum(-1), empty=0.0)


class RarefiedDistinctScore(NgramScore):
    """Expected distinct-n of m n-grams that are drawn without replacement, in [0, 1] (HD-D of
    McCarthy & Jarvis 2010).

    With x_i occurrences of n-gram i and N in all: (sum over i of 1 - C(N - x_i, m) / C(N, m)) / m.
    Systems with long and with short responses are compared on equally many n-grams. Without m
    n-grams, the missing ones count as repetitions: distinct n-grams / m.

    Args:
        n: Words of an n-gram.
        sample: Number m of n-grams that are drawn, equal for all systems that are compared.
    """

    def __init__(self, n: int, sample: int, **options: Any) -> None:
        if sample < 1:
            raise ValueError(f"sample is {sample}; give at least 1")
        super().__init__(n, **options)
        self.sample = sample

    def value(self, counts: Counts) -> Numbers:
        """Return the expectation; 0 without n-grams."""
        occurrences = np.asarray(counts, dtype=np.float64)  # [..., types]
        total = occurrences.sum(-1, keepdims=True)
        drawn = np.minimum(total, self.sample)
        others = total - occurrences
        log_absent = _log_choices(others, drawn) - _log_choices(total, drawn)
        present = np.where(others >= drawn, -np.expm1(log_absent), 1.0) * (occurrences > 0)
        return present.sum(-1) / self.sample


def _log_choices(items: Floats, drawn: Floats) -> Floats:
    """Return ln of the binomial coefficient; of no use where there are fewer items than are
    drawn.
    """
    from scipy.special import gammaln  # the import takes 0.3 s

    chosen: Floats = (
        gammaln(items + 1) - gammaln(drawn + 1) - gammaln(np.maximum(items - drawn, 0) + 1)
    )
    return chosen


class UniqueRatioScore(WholeResponseScore):
    """Unique-output ratio = distinct responses / responses, in [0, 1]."""

    def value(self, counts: Counts) -> Numbers:
        """Return the ratio; 0 without responses."""
        return ratio(np.count_nonzero(counts, axis=-1), counts.sum(-1), empty=0.0)


class ExpectationAdjustedDistinctScore(NgramScore):
    """Expectation-adjusted distinct-n = N / (T (1 - ((T - 1) / T)^C)). Liu et al. (2022), ACL.

    N = distinct n-grams, C = n-grams of all responses, T = vocabulary^n; the denominator is the
    expected N of C n-grams drawn uniformly from T. It corrects distinct-n for the length of
    responses, not for their number.

    Args:
        n: Words of an n-gram.
        vocabulary: Size of the vocabulary, equal for all systems that are compared.
    """

    def __init__(
        self,
        n: int,
        vocabulary: int = VOCABULARY,
        **options: Any,
    ) -> None:
        if vocabulary < 2:
            raise ValueError(f"vocabulary is {vocabulary}; give at least 2")
        super().__init__(n, **options)
        self.vocabulary = vocabulary

    def value(self, counts: Counts) -> Numbers:
        """Return the ratio; 0 without n-grams."""
        types = float(self.vocabulary) ** self.n
        expected = -types * np.expm1(counts.sum(-1) * np.log1p(-1 / types))
        return ratio(np.count_nonzero(counts, axis=-1), expected, empty=0.0)

    @property
    def signature(self) -> str:
        """The vocabulary."""
        return f"vocabulary:{self.vocabulary}"


class EntropyScore(NgramScore):
    """Entropy of the n-grams of all responses = - sum of p ln p, in nats.

    Zhang et al. (2018), NeurIPS.

    p is the share of an n-gram among all generated n-grams.

    Args:
        n: Words of an n-gram.
    """

    def value(self, counts: Counts) -> Numbers:
        """Return the entropy; 0 without n-grams."""
        total = counts.sum(-1)
        whole = np.asarray(counts, dtype=np.int32)
        possible = np.arange(whole.max(initial=0) + 1)
        # few different counts: looking up x ln x is three times as fast as computing it
        weighted = (possible * np.log(np.maximum(possible, 1)))[whole].sum(-1)
        return np.maximum(
            0.0, np.log(np.where(total, total, 1)) - ratio(weighted, total, empty=0.0)
        )


class DullnessScore(WholeResponseScore):
    """Share of responses that equal one of the most frequent responses of the system, in [0, 1].

    Args:
        most_frequent: Number of most frequent responses.
    """

    def __init__(self, most_frequent: int = 20, **options: Any) -> None:
        if most_frequent < 1:
            raise ValueError(f"most_frequent is {most_frequent}; give at least 1")
        super().__init__(**options)
        self.most_frequent = most_frequent

    def value(self, counts: Counts) -> Numbers:
        """Return the share; 0 without responses."""
        top = most_frequent(np.asarray(counts), self.most_frequent)
        return ratio(top, counts.sum(-1), empty=0.0)


def most_frequent(counts: NDArray[Any], number: int) -> Floats:
    """Return the sum [...] of the largest counts [..., types].

    Most responses of a system differ, so only items that occur more than once are sorted.
    """
    *outer, types = counts.shape
    rows = counts.reshape(math.prod(outer), types)
    repeated = rows.max(axis=0, initial=0) > 1
    others = np.count_nonzero(rows[:, ~repeated], axis=-1)[:, None]  # each occurs once
    ones = np.arange(number) < others
    candidates = np.concatenate([rows[:, repeated], ones], axis=1)
    rare = candidates.shape[1] - number
    top: Floats = np.partition(candidates, rare, axis=1)[:, rare:].sum(1, dtype=np.float64)
    return top.reshape(outer)


class LengthMeanScore(AdditiveScore):
    """Mean length = words / responses; 0 without responses."""

    higher_is_better: bool | None = None
    size = 2

    def update(self, responses: Sequence[str]) -> None:
        """Add responses, raw text."""
        self.add(self.statistics_of(responses))

    def statistics_of(self, responses: Sequence[str]) -> Statistics:
        """Return the number of words, and 1, of each response: float64 [N, 2]."""
        lengths = [(len(words(response)), 1) for response in responses]
        return np.array(lengths, dtype=np.float64).reshape(-1, self.size)

    def value(self, length: Numbers, responses: Numbers) -> Numbers:
        """Return the mean."""
        return ratio(length, responses, empty=0.0)
