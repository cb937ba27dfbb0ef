"""All the ways to write words as pieces at once: expected counts of the pieces, and the best way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Hashes = NDArray[np.uint64]

BASE = np.uint64(0x9E3779B97F4A7C15)
"""Odd, with bits all over: sums of bytes times its powers mark byte strings apart, but for one pair in 2^64."""


class Words:
    """Byte strings one after the other.

    Attributes:
        text: Their bytes [N].
        owner: The number of the word of each byte [N].
        room: How many bytes the word has from each byte on [N].
        lengths: Of each word.
    """

    def __init__(self, words: Sequence[bytes]) -> None:
        self.lengths = np.array([len(word) for word in words], dtype=np.int64)
        self.text = np.frombuffer(b"".join(words), dtype=np.uint8)
        self.owner = np.repeat(np.arange(len(words)), self.lengths)
        self.room = np.cumsum(self.lengths)[self.owner] - np.arange(len(self.text))

    def windows(self, longest: int) -> Iterator[tuple[int, Integers, Hashes]]:
        """Yield each length up to `longest`, the places where a part of a word of that length starts, and its hash."""
        starts, hashes = np.arange(len(self.text)), np.zeros(len(self.text), dtype=np.uint64)
        for length in range(1, longest + 1):
            inside = self.room[starts] >= length
            starts, hashes = starts[inside], hashes[inside]
            hashes = hashes * BASE + self.text[starts + length - 1] + np.uint64(1)
            yield length, starts, hashes


class Lattice:
    """Words with an edge from place to place for every piece that lies between.

    Args:
        words: What is written.
        hashes: Of the pieces, as `Words.windows` makes them; the n-th piece has the number n.
        longest: The most bytes of a piece.
    """

    def __init__(self, words: Words, hashes: Hashes, *, longest: int) -> None:
        self.words = words
        order = np.argsort(hashes)
        edges = []
        for length, starts, found in words.windows(longest):
            place = np.minimum(np.searchsorted(hashes, found, sorter=order), len(hashes) - 1)
            piece = order[place]
            known = hashes[piece] == found
            edges.append((starts[known], np.full(known.sum(), length), piece[known]))
        starts, lengths, self.piece = (np.concatenate(column) for column in zip(*edges, strict=True))
        self.start = starts + words.owner[starts]  # a word of n bytes has n + 1 places
        self.end = self.start + lengths

    @cached_property
    def first(self) -> Integers:
        """The first place of each word."""
        return np.cumsum(self.words.lengths + 1) - self.words.lengths - 1

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Leave the edges of other pieces out, and number the kept ones anew."""
        there = kept[self.piece]
        self.start, self.end = self.start[there], self.end[there]
        self.piece = (np.cumsum(kept) - 1)[self.piece[there]]

    def expected(self, probabilities: Floats, counts: Integers) -> Floats:
        """How often each piece is expected in words that occur so often: the E of EM, forwards and backwards."""
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

    def best_of_parts(self, scores: Floats) -> Floats:
        """Of each word the highest sum of scores with two pieces or more; minus infinity where there is no such way."""
        last = self.first + self.words.lengths
        best: Floats = np.full(last[-1] + 1, -np.inf)
        best[self.first] = 0
        whole = np.zeros(last[-1] + 1, dtype=bool)
        whole[self.first] = True
        final = np.zeros(last[-1] + 1, dtype=bool)
        final[last] = True
        for edges in self._by_depth(self.end):
            parts = edges[~(whole[self.start[edges]] & final[self.end[edges]])]
            np.maximum.at(best, self.end[parts], best[self.start[parts]] + scores[self.piece[parts]])
        found: Floats = best[last]
        return found

    def _by_depth(self, place: Integers) -> list[Integers]:
        """The edges by how far into its word a place of theirs is."""
        depth = place - np.repeat(self.first, self.words.lengths + 1)[place]
        order = np.argsort(depth, kind="stable")
        return np.split(order, np.cumsum(np.bincount(depth))[:-1])
