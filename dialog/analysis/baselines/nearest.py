"""Nearest neighbour by TF-IDF: the context that shares the most rare words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dialog.metrics import words

DENSE = 8
"""A term of more than 1 in 8 texts is stored as an array over all texts, which is faster to add."""


def terms(text: str) -> Iterator[str]:
    """Yield the lower-case words of a text; in scripts without spaces its letters and pairs of
    adjacent letters.
    """
    for chunk in text.lower().split():
        letters = [chunk] if chunk.isascii() else words(chunk)
        yield from letters
        yield from map("".join, pairwise(letters))


class NearestText:
    r"""Index of texts that finds the one with the largest cosine similarity of TF-IDF vectors.

    The weight of term w in a text is (1 + ln tf(w)) (1 + ln((1 + N) / (1 + df(w)))), where tf
    counts it in the text and df counts the texts of the N that contain it; vectors are scaled to
    length 1. These are the weights of scikit-learn's
    ``TfidfVectorizer(token_pattern=r"[^\s]+", sublinear_tf=True)``.

    It takes 12 bytes per distinct term of each text, 8 bytes per text for each of the most frequent
    terms, and 8 bytes per text during a query.

    Args:
        texts: At least one text.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.vocabulary: dict[str, int] = {}
        ids: list[int] = []
        frequencies: list[int] = []
        lengths: list[int] = []
        for text in texts:
            counts = Counter(terms(text))
            ids += [self.vocabulary.setdefault(term, len(self.vocabulary)) for term in counts]
            frequencies += counts.values()
            lengths.append(len(counts))
        columns = np.array(ids, dtype=np.int32)
        rows = np.repeat(np.arange(len(texts), dtype=np.int32), lengths)
        sizes = np.bincount(columns, minlength=len(self.vocabulary))
        self.inverse_frequencies = 1 + np.log((1 + len(texts)) / (1 + sizes))  # [terms]
        weights = (1 + np.log(np.array(frequencies))) * self.inverse_frequencies[columns]
        weights /= np.sqrt(np.bincount(rows, weights**2, minlength=len(texts)))[rows]
        order = np.argsort(columns, kind="stable")
        # grouped by term, rows ascending
        self.rows = rows[order]
        self.weights = weights[order]
        self.offsets = np.concatenate([[0], np.cumsum(sizes)])
        self.count = len(texts)
        self.dense = {
            number: self._column(number)
            for number in np.flatnonzero(sizes > len(texts) / DENSE).tolist()
        }

    def nearest(self, text: str) -> int:
        """Return the index of the nearest text: the first of several, and the first of all if no
        term is shared.
        """
        similarities = np.zeros(self.count)
        for term, frequency in Counter(terms(text)).items():
            if (number := self.vocabulary.get(term)) is not None:
                weight = (1 + np.log(frequency)) * self.inverse_frequencies[number]
                if number in self.dense:
                    similarities += weight * self.dense[number]
                else:
                    postings = self._postings(number)
                    similarities[self.rows[postings]] += weight * self.weights[postings]
        return int(similarities.argmax())

    def _postings(self, number: int) -> slice:
        """Return the positions of a term in `rows` and `weights`."""
        return slice(self.offsets[number], self.offsets[number + 1])

    def _column(self, number: int) -> NDArray[np.float64]:
        """Return the weight of a term in each text."""
        column = np.zeros(self.count)
        column[self.rows[self._postings(number)]] = self.weights[self._postings(number)]
        return column
