"""Segmentation lattice of a unigram LM: expected piece counts (forward-backward) and best segmentations (Viterbi)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Hashes = NDArray[np.uint64]

BASE = np.uint64(0x9E3779B97F4A7C15)
"""Base of a polynomial hash of byte strings, odd and with mixed bits; two strings collide with probability 2^-64."""


class WordBytes:
    """The bytes of all words, concatenated.

    Attributes:
        text: The bytes [N].
        owner: Per byte, the number of its word [N].
        room: Per byte, the number of bytes from it to the end of its word [N].
        lengths: Length of each word [words].
    """

    def __init__(self, words: Sequence[bytes]) -> None:
        self.lengths = np.array([len(word) for word in words], dtype=np.int64)
        self.text = np.frombuffer(b"".join(words), dtype=np.uint8)
        self.owner = np.repeat(np.arange(len(words)), self.lengths)
        self.room = np.cumsum(self.lengths)[self.owner] - np.arange(len(self.text))

    def substrings(self, longest: int) -> Iterator[tuple[int, Integers, Hashes]]:
        """Yield, for each length up to `longest`, the start positions and hashes of all substrings of words."""
        starts, hashes = np.arange(len(self.text)), np.zeros(len(self.text), dtype=np.uint64)
        for length in range(1, longest + 1):
            inside = self.room[starts] >= length
            starts, hashes = starts[inside], hashes[inside]
            hashes = hashes * BASE + self.text[starts + length - 1] + np.uint64(1)
            yield length, starts, hashes


class Lattice:
    """Graph of all segmentations of words into pieces: a word of n bytes has n + 1 nodes, each piece in it is an edge.

    Args:
        words: The words to segment.
        hashes: Hash of each piece, as in `WordBytes.substrings` [pieces].
        longest: Most bytes of a piece.
    """

    def __init__(self, words: WordBytes, hashes: Hashes, *, longest: int) -> None:
        self.words = words
        order = np.argsort(hashes)
        edges = []
        for length, starts, substrings in words.substrings(longest):
            nearest = np.minimum(np.searchsorted(hashes, substrings, sorter=order), len(hashes) - 1)
            piece = order[nearest]
            match = hashes[piece] == substrings
            edges.append((starts[match], np.full(match.sum(), length), piece[match]))
        starts, lengths, self.piece = (np.concatenate(column) for column in zip(*edges, strict=True))
        self.start = starts + words.owner[starts]  # node of a byte: each earlier word has one node more than bytes
        self.end = self.start + lengths

    @cached_property
    def first(self) -> Integers:
        """The first node of each word [words]."""
        return np.cumsum(self.words.lengths + 1) - self.words.lengths - 1

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Remove the edges of all other pieces, and renumber the kept pieces from 0."""
        stays = kept[self.piece]
        self.start, self.end = self.start[stays], self.end[stays]
        self.piece = (np.cumsum(kept) - 1)[self.piece[stays]]

    def expected_counts(self, probabilities: Floats, counts: Integers) -> Floats:
        """Return the expected count of each piece, given the count of each word: the E-step, by forward-backward."""
        last = self.first + self.words.lengths
        forward, backward = np.zeros(last[-1] + 1), np.zeros(last[-1] + 1)
        forward[self.first] = backward[last] = 1
        for edges in self._by_depth(self.end):
            np.add.at(forward, self.end[edges], forward[self.start[edges]] * probabilities[self.piece[edges]])
        for edges in reversed(self._by_depth(self.start)):
            np.add.at(backward, self.start[edges], backward[self.end[edges]] * probabilities[self.piece[edges]])
        weight = np.repeat(counts / forward[last], self.words.lengths + 1)[self.start]
        mass = forward[self.start] * probabilities[self.piece] * backward[self.end] * weight
        sums: Floats = np.bincount(self.piece, mass, minlength=len(probabilities)).astype(np.float64)
        return sums

    def best_split_scores(self, scores: Floats) -> Floats:
        """Return the Viterbi score of each word over segmentations into two or more pieces; -inf without any."""
        last = self.first + self.words.lengths
        best: Floats = np.full(last[-1] + 1, -np.inf)
        best[self.first] = 0
        is_first = np.zeros(last[-1] + 1, dtype=bool)
        is_first[self.first] = True
        is_last = np.zeros(last[-1] + 1, dtype=bool)
        is_last[last] = True
        for edges in self._by_depth(self.end):
            parts = edges[~(is_first[self.start[edges]] & is_last[self.end[edges]])]
            np.maximum.at(best, self.end[parts], best[self.start[parts]] + scores[self.piece[parts]])
        word_scores: Floats = best[last]
        return word_scores

    def _by_depth(self, node: Integers) -> list[Integers]:
        """Group the edges by the offset of one of their nodes in its word."""
        depth = node - np.repeat(self.first, self.words.lengths + 1)[node]
        order = np.argsort(depth, kind="stable")
        return np.split(order, np.cumsum(np.bincount(depth))[:-1])
