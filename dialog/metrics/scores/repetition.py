"""Repetition within responses, similarity among them, and copies of training responses."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from dialog.metrics.scores.additive import AdditiveScore, Numbers, Statistic, Statistics, ratio
from dialog.metrics.scores.bleu import ORDER, ngrams
from dialog.metrics.scores.counts import hash_item
from dialog.metrics.words import words

SEED = 0
EPSILON = 0.1
"""Matches of an order without a match: NLTK's SmoothingFunction.method1 (Chen & Cherry 2014)."""


class RepetitionScore(AdditiveScore):
    """Share of responses in which an n-gram of words occurs more than once, in [0, 1]; 0 without
    responses.

    Args:
        n: Words of an n-gram.
    """

    higher_is_better: bool | None = False
    size = 2

    def __init__(self, n: int = 3, **options: Any) -> None:
        if n < 1:
            raise ValueError(f"n is {n}; give at least 1")
        super().__init__(**options)
        self.n = n

    def statistics_of(self, responses: Sequence[str]) -> Statistics:
        """Return whether each response repeats an n-gram, and 1: float64 [N, 2]."""
        counts = [ngrams(words(response.lower()), self.n) for response in responses]
        rows = [(count.total() > len(count), 1) for count in counts]
        return np.array(rows, dtype=np.float64).reshape(-1, self.size)

    def update(self, responses: Sequence[str]) -> None:
        """Add responses, raw text."""
        self.add(self.statistics_of(responses))

    def value(self, repeating: Numbers, responses: Numbers) -> Numbers:
        """Return the share."""
        return ratio(repeating, responses, empty=0.0)


class TrainCopyRatioScore(AdditiveScore):
    """Share of responses that are equal to a response of the training split up to white space, in
    [0, 1].

    The argument of `update` is 1 for a copy, else 0.
    """

    higher_is_better: bool | None = None
    size = 2

    def statistics_of(self, train_copy: Statistic) -> Statistics:
        """Return whether each response is a copy, and 1: float64 [N, 2]."""
        return self._columns(train_copy, 1)

    def update(self, train_copy: Statistic) -> None:
        """Add responses."""
        self.add(self.statistics_of(train_copy))

    def value(self, copies: Numbers, responses: Numbers) -> Numbers:
        """Return the share."""
        return ratio(copies, responses)


class SelfBLEUScore:
    """Self-BLEU: mean sentence BLEU-4 of responses with all others as references, in [0, 100].

    Zhu et al. (2018).

    Its cost grows with the square of the number of responses, so it is measured on a sample drawn
    with a fixed seed; 0 with fewer than two responses. As in Texygen, an order without a match has
    0.1 matches.

    Args:
        sample: Largest number of responses that are compared.
    """

    def __init__(self, sample: int = 500, **options: Any) -> None:
        if sample < 2:
            raise ValueError(f"sample is {sample}; give at least 2")
        super().__init__(**options)
        self.sample = sample
        self.rows: list[tuple[str, ...]] = []

    def update(self, responses: Sequence[str]) -> None:
        """Add responses, raw text."""
        self.rows += [tuple(words(response.lower())) for response in responses]

    def compute(self) -> float:
        """Return the mean."""
        rows = [[hash_item((word,)) for word in row] for row in self.rows]
        return self_bleu(rows, [hash_item(row) for row in self.rows], self.sample)


def self_bleu(rows: Sequence[list[int]], hashes: Sequence[int], sample: int) -> float:
    """Return Self-BLEU of a sample.

    Args:
        rows: Hashes of the words of each response.
        hashes: Hash of each response, which decides on the sample, so that the order of the
            responses makes no difference.
        sample: Largest number of responses that are compared.
    """
    order = sorted(range(len(rows)), key=hashes.__getitem__)
    chosen = random.Random(SEED).sample(order, min(sample, len(order)))
    drawn = [rows[index] for index in chosen]
    return 100 * math.fsum(bleu_with_others(drawn)) / len(drawn) if len(drawn) > 1 else 0.0


def bleu_with_others(rows: Sequence[list[int]]) -> list[float]:
    """Return the sentence BLEU-4 of each response, a list of words, with all others as references,
    in [0, 1].
    """
    precisions: list[list[float]] = [[] for _ in rows]
    matched = [True] * len(rows)
    for n in range(1, ORDER + 1):
        counts = [ngrams(row, n) for row in rows]
        largest = two_largest(counts)
        for place, count in enumerate(counts):
            # the largest count of an n-gram in another response
            others = (largest[ngram][1 if largest[ngram][2] == place else 0] for ngram in count)
            matches = sum(map(min, count.values(), others))
            matched[place] &= n > 1 or matches > 0
            precisions[place].append((matches or EPSILON) / max(1, count.total()))
    lengths = Counter(map(len, rows))
    scores = []
    for row, values, any_match in zip(rows, precisions, matched, strict=True):
        other = (length for length in lengths if length != len(row) or lengths[length] > 1)
        closest = min(other, key=lambda length: (abs(length - len(row)), length))
        penalty = min(0.0, 1 - closest / max(1, len(row)))
        scores.append(
            math.exp(math.fsum(map(math.log, values)) / ORDER + penalty) if any_match else 0.0
        )
    return scores


def two_largest(
    counts: Sequence[Counter[tuple[Any, ...]]],
) -> dict[tuple[Any, ...], tuple[int, int, int]]:
    """Return the largest and the second largest count of each n-gram, and the response with the
    largest.
    """
    largest: dict[tuple[Any, ...], tuple[int, int, int]] = {}
    for place, count in enumerate(counts):
        for ngram, number in count.items():
            first, second, owner = largest.get(ngram, (0, 0, -1))
            largest[ngram] = (
                (number, first, place) if number > first else (first, max(second, number), owner)
            )
    return largest
