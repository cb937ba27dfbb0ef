"""Near duplicates by MinHash: candidates come from locality-sensitive hashing, their similarity is
computed exactly.

The similarity of two texts is the Jaccard index |A ∩ B| / |A ∪ B| of their shingle sets (Broder
1997).
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from rensa import RMinHash, RMinHashLSH

from dialog.data.text_matching.fingerprints import Integers

THRESHOLD = 0.8
MAX_FIRSTS = 100_000
MAX_CANDIDATES = 50
"""Limits of `RepeatDetector`: texts that it keeps, and comparisons per text."""
PERMUTATIONS = 128
BANDS = 16
"""16 bands of 8: two texts of similarity 0.8 become candidates with probability 95 %, of 0.9 with
99.99 %.
"""


class NearDuplicate(NamedTuple):
    """An indexed text and the most similar text that it was compared with."""

    similarity: float
    id: str
    text: str
    other_id: str
    other_text: str


class ShingledText:
    """A text as the set of its shingles: runs of `length` consecutive normalised words."""

    def __init__(self, id: str, text: str, words: list[str], length: int) -> None:
        self.id = id
        self.text = text
        self.shingles = shingles(words, length)

    @cached_property
    def hash(self) -> RMinHash:
        """The MinHash signature."""
        signature = RMinHash(num_perm=PERMUTATIONS, seed=1)
        signature.update(list(self.shingles))
        return signature

    @cached_property
    def digest(self) -> bytes:
        """A 16-byte digest of the shingle set."""
        return blake2b("\n".join(sorted(self.shingles)).encode(), digest_size=16).digest()


class NearDuplicateIndex:
    """Index of texts that records, for each, the most similar text of another collection above
    `THRESHOLD`.

    Texts with equal shingles share one entry and are compared once, so repeated texts cost nothing.
    """

    def __init__(self) -> None:
        self.index = RMinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS, num_bands=BANDS)
        self.kept: list[tuple[str, str, int]] = []
        self.numbers: dict[frozenset[str], int] = {}
        self.entries: list[ShingledText] = []
        self.best: dict[int, tuple[float, str, str]] = {}
        self.compared: set[bytes] = set()

    def add(self, text: ShingledText) -> None:
        """Add a text to the index."""
        number = self.numbers.setdefault(text.shingles, len(self.entries))
        if number == len(self.entries):
            self.index.insert(number, text.hash)
            self.entries.append(text)
        self.kept.append((text.id, text.text, number))

    def compare(self, other: ShingledText) -> None:
        """Compare a text of the other collection with the index, which must be complete."""
        if other.digest in self.compared:
            return
        candidates = self.index.query(other.hash)
        if candidates:
            self.compared.add(other.digest)
        for number in candidates:
            shingles = self.entries[number].shingles
            best = self.best[number][0] if number in self.best else 0.0
            if best < 1.0:
                similarity = len(shingles & other.shingles) / len(shingles | other.shingles)
                if similarity >= THRESHOLD and similarity > best:
                    self.best[number] = similarity, other.id, other.text

    def compared_with(self, other: NearDuplicateIndex) -> NearDuplicateIndex:
        """Return a copy whose results come from the texts of another index alone."""
        fresh = copy(self)
        fresh.best = {}
        fresh.compared = set()
        for text in other.entries:
            fresh.compare(text)
        return fresh

    @property
    def near(self) -> dict[int, NearDuplicate]:
        """The near duplicate of each text that has one, by the position of the text in the order of
        `add`.
        """
        matches = {}
        for position, (id, text, number) in enumerate(self.kept):
            if number in self.best:
                similarity, other_id, other_text = self.best[number]
                matches[position] = NearDuplicate(similarity, id, text, other_id, other_text)
        return matches


class RepeatDetector:
    """Find texts that are near duplicates of an earlier first text, one without an earlier near
    duplicate.

    It keeps only first texts, at most `MAX_FIRSTS`, with about 1.4 KB each and 8 bytes per shingle,
    and compares a text with at most `MAX_CANDIDATES` of them: memory and time per text are bounded
    for any corpus.
    """

    def __init__(self) -> None:
        self.index = RMinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS, num_bands=BANDS)
        self.firsts: list[tuple[str, Integers]] = []
        self.compared = 0
        self.near: list[tuple[str, str, float]] = []

    def compare(self, text: ShingledText) -> None:
        """Compare a text with the first texts; keep it as one of them if it is near none."""
        self.compared += 1
        hashes = np.fromiter(map(hash, text.shingles), np.int64, len(text.shingles))
        best = None
        best_similarity = 0.0
        for number in sorted(self.index.query(text.hash))[:MAX_CANDIDATES]:
            first = self.firsts[number][1]
            shared = len(np.intersect1d(first, hashes, assume_unique=True))
            similarity = shared / (len(first) + len(hashes) - shared)
            if similarity >= THRESHOLD and similarity > best_similarity:
                best = number
                best_similarity = similarity
        if best is not None:
            self.near.append((text.id, self.firsts[best][0], best_similarity))
        elif len(self.firsts) < MAX_FIRSTS:
            self.index.insert(len(self.firsts), text.hash)
            self.firsts.append((text.id, hashes))


def shingles(words: list[str], length: int) -> frozenset[str]:
    """Return the runs of `length` consecutive words; a shorter text is one run."""
    return frozenset(
        " ".join(words[at : at + length]) for at in range(max(1, len(words) - length + 1))
    )
