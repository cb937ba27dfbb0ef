"""Texts that are much alike, found without comparing each with each."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from rensa import RMinHash, RMinHashLSH

from dialog.data.text_matching.fingerprints import Integers

THRESHOLD = 0.8
FIRSTS, CANDIDATES = 100_000, 50
"""Of texts that later ones are held against, see `Repeats`."""
PERMUTATIONS, BANDS = 128, 16
"""16 bands of 8: texts of similarity 0.8 meet in a band with a chance of 95 %, of 0.9 with 99.99 %."""


class Near(NamedTuple):
    """A text of the index and the one that is most like it of those that it met."""

    similarity: float
    id: str
    text: str
    other_id: str
    other_text: str


class Probe:
    """A text as its set of runs of `length` words, with their MinHash (Broder 1997)."""

    def __init__(self, id: str, text: str, said: list[str], length: int) -> None:
        self.id, self.text = id, text
        self.shingles = shingles(said, length)

    @cached_property
    def hash(self) -> RMinHash:
        """The MinHash."""
        found = RMinHash(num_perm=PERMUTATIONS, seed=1)
        found.update(list(self.shingles))
        return found

    @cached_property
    def digest(self) -> bytes:
        """What tells its set from others, in 16 bytes."""
        return blake2b("\n".join(sorted(self.shingles)).encode(), digest_size=16).digest()


class Index:
    """Texts, and for each the most similar one of those that were met, if one was similar enough.

    MinHash finds the candidates; the similarity of each, |A ∩ B| / |A ∪ B| of their shingles, is then counted out.
    Texts of the same shingles are one candidate, and are met once: what is said a thousand times costs as if once.
    """

    def __init__(self) -> None:
        self.index = RMinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS, num_bands=BANDS)
        self.kept: list[tuple[str, str, int]] = []
        self.numbers: dict[frozenset[str], int] = {}
        self.probes: list[Probe] = []
        self.best: dict[int, tuple[float, str, str]] = {}
        self.met: set[bytes] = set()

    def add(self, probe: Probe) -> None:
        """Append a text."""
        number = self.numbers.setdefault(probe.shingles, len(self.probes))
        if number == len(self.probes):
            self.index.insert(number, probe.hash)
            self.probes.append(probe)
        self.kept.append((probe.id, probe.text, number))

    def meet(self, probe: Probe) -> None:
        """Hold a text of the other side against all that were added; none may be added later."""
        if probe.digest in self.met:
            return
        candidates = self.index.query(probe.hash)
        if candidates:
            self.met.add(probe.digest)
        for number in candidates:
            known = self.probes[number].shingles
            best = self.best[number][0] if number in self.best else 0.0
            if best < 1.0:
                similarity = len(known & probe.shingles) / len(known | probe.shingles)
                if similarity >= THRESHOLD and similarity > best:
                    self.best[number] = similarity, probe.id, probe.text

    def against(self, other: Index) -> Index:
        """The same texts, held against those of another index alone."""
        again = copy(self)
        again.best, again.met = {}, set()
        for probe in other.probes:
            again.meet(probe)
        return again

    @property
    def near(self) -> dict[int, Near]:
        """The most similar text of each that has one, by its place among those that were added."""
        found = {}
        for place, (id, text, number) in enumerate(self.kept):
            if number in self.best:
                similarity, other_id, other_text = self.best[number]
                found[place] = Near(similarity, id, text, other_id, other_text)
        return found


class Repeats:
    """Which texts are near an earlier one, that itself is near none before it: what is left if each is said once.

    Only such first ones are kept, about 1.4 KB each and 8 bytes a run, and no more than `FIRSTS`; a text is held
    against `CANDIDATES` of them at most. So memory and time have an end however large a corpus is, and however alike
    its texts are.
    """

    def __init__(self) -> None:
        self.index = RMinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS, num_bands=BANDS)
        self.firsts: list[tuple[str, Integers]] = []
        self.compared = 0
        self.near: list[tuple[str, str, float]] = []

    def meet(self, probe: Probe) -> None:
        """Hold a text against the first ones, and the later ones against it if it is near none."""
        self.compared += 1
        runs = np.fromiter(map(hash, probe.shingles), np.int64, len(probe.shingles))
        best, similarity = None, 0.0
        for number in sorted(self.index.query(probe.hash))[:CANDIDATES]:
            known = self.firsts[number][1]
            both = len(np.intersect1d(known, runs, assume_unique=True))
            found = both / (len(known) + len(runs) - both)
            if found >= THRESHOLD and found > similarity:
                best, similarity = number, found
        if best is not None:
            self.near.append((probe.id, self.firsts[best][0], similarity))
        elif len(self.firsts) < FIRSTS:
            self.index.insert(len(self.firsts), probe.hash)
            self.firsts.append((probe.id, runs))


def shingles(said: list[str], length: int) -> frozenset[str]:
    """The runs of `length` neighbouring words; a shorter text is one run."""
    return frozenset(" ".join(said[at : at + length]) for at in range(max(1, len(said) - length + 1)))
