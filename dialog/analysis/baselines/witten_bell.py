"""Witten-Bell n-gram models of responses, which ignore the context."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dialog.metrics import words

Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]

ORDER = 5
TOKEN = re.compile(r"\w+|[^\w\s]")
END = 0
UNKNOWN = 1
"""Ids of the end token and the unknown token."""


def tokenize(text: str) -> list[str]:
    """Split into runs of letters and digits, and single other characters; keeps case.

    Each letter of a script without spaces is a token.
    """
    return TOKEN.findall(" ".join(words(text)))


class Likelihoods(NamedTuple):
    """Scores of N texts, end tokens included; fields as in `dialog.metrics.likelihood`."""

    nll: Numbers  # [order, N]: nats, by the models of order 1, 2, ...
    tokens: Integers  # [N]
    unknown: Integers  # [N]: tokens that the training texts do not contain
    unknown_bytes: Integers  # [N]: UTF-8 bytes of these tokens


class _Level(NamedTuple):
    """Counts of the n-grams of one order."""

    keys: Integers  # [grams], sorted: index of the context * vocabulary + token
    counts: Integers  # [grams]: c(h, w)
    totals: Numbers  # [contexts]: c(h)
    types: Integers  # [contexts]: t(h)


class WittenBell:
    """Interpolated Witten-Bell models of orders 1 to `order` (Witten and Bell 1991; Chen and
    Goodman 1999, 2.6).

        p_n(w | h) = (c(h, w) + t(h) p_{n-1}(w | h')) / (c(h) + t(h))

    where h are the n - 1 tokens before w, h' is h without its first token, c counts occurrences in
    the training texts and t(h) counts the distinct tokens after h. p_n = p_{n-1} if h never occurs,
    and p_0 = 1 / V, where V counts the distinct training tokens, the end token and the unknown
    token. Each text is preceded by n - 1 start tokens and followed by an end token, which is
    predicted. A token that the training texts do not contain is the unknown token.

    It takes about 12 bytes per distinct n-gram of each order, and during construction 60 bytes per
    training token.

    Args:
        texts: Training texts.
        order: Highest order.
    """

    def __init__(self, texts: Iterable[str], order: int = ORDER) -> None:
        self.vocabulary: dict[str, int] = {}
        ids: list[Integers] = []
        lengths: list[int] = []
        for text in texts:
            tokens = [
                self.vocabulary.setdefault(token, len(self.vocabulary) + 2)
                for token in tokenize(text)
            ]
            ids.append(np.array([*tokens, END], dtype=np.int32))
            lengths.append(len(tokens) + 1)
        self.size = len(self.vocabulary) + 2
        sequence = np.concatenate(ids) if ids else np.empty(0, np.int32)
        del ids
        self.levels: list[_Level] = []
        starts = np.cumsum([0, *lengths[:-1]])[: len(lengths)]
        contexts = np.zeros(len(sequence), np.int64)
        number = 1
        for _ in range(order):
            keys, grams, counts = np.unique(
                contexts * self.size + sequence, return_inverse=True, return_counts=True
            )
            owners = keys // self.size
            totals: Numbers = np.bincount(owners, weights=counts, minlength=number).astype(
                np.float64
            )
            self.levels.append(
                _Level(keys, counts.astype(np.int32), totals, np.bincount(owners, minlength=number))
            )
            contexts = _shift(grams, starts, len(keys))
            number = len(keys) + 1

    def score(self, texts: Sequence[str]) -> Likelihoods:
        """Return the negative log-likelihoods of texts, each on its own."""
        tokens = [tokenize(text) for text in texts]
        ids = [
            np.array([*(self.vocabulary.get(token, UNKNOWN) for token in row), END])
            for row in tokens
        ]
        sequence = np.concatenate(ids) if ids else np.empty(0, np.int64)
        lengths = np.array([len(row) for row in ids], dtype=np.int64)
        starts = np.cumsum(lengths) - lengths
        probabilities = np.full(len(sequence), 1 / self.size)
        contexts = np.zeros(len(sequence), np.int64)
        nll = []
        for level in self.levels:
            grams = _find(level.keys, np.where(contexts >= 0, contexts * self.size + sequence, -1))
            counts = np.where(grams >= 0, level.counts[grams], 0)
            totals = level.totals[contexts]
            types = level.types[contexts]
            seen = (contexts >= 0) & (totals > 0)
            interpolated = (counts + types * probabilities) / np.where(seen, totals + types, 1)
            probabilities = np.where(seen, interpolated, probabilities)
            nll.append(
                np.add.reduceat(-np.log(probabilities), starts) if len(starts) else np.empty(0)
            )
            contexts = _shift(grams, starts, len(level.keys))
        unknown = [[token for token in row if token not in self.vocabulary] for row in tokens]
        unknown_bytes = [sum(len(token.encode()) for token in row) for row in unknown]
        return Likelihoods(
            np.array(nll), lengths, np.array([len(row) for row in unknown]), np.array(unknown_bytes)
        )


def _shift(grams: Integers, starts: Integers, start: int) -> Integers:
    """Return the context of each token: the n-gram that ends before it, or `start` at the start of
    a text.
    """
    contexts = np.empty_like(grams)
    contexts[1:] = grams[:-1]
    contexts[starts] = start
    return contexts


def _find(keys: Integers, values: Integers) -> Integers:
    """Return the position of each value in sorted keys; -1 if it is missing."""
    positions = np.minimum(np.searchsorted(keys, values), len(keys) - 1)
    return np.where(keys[positions] == values, positions, -1)
