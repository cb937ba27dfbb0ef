"""Texts that are much alike, found without comparing each with each."""

from __future__ import annotations

from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple

from rensa import RMinHash, RMinHashLSH

THRESHOLD = 0.8
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
        self.sets: list[frozenset[str]] = []
        self.best: dict[int, tuple[float, str, str]] = {}
        self.met: set[bytes] = set()

    def add(self, probe: Probe) -> None:
        """Append a text."""
        number = self.numbers.setdefault(probe.shingles, len(self.sets))
        if number == len(self.sets):
            self.index.insert(number, probe.hash)
            self.sets.append(probe.shingles)
        self.kept.append((probe.id, probe.text, number))

    def meet(self, probe: Probe) -> None:
        """Hold a text of the other side against all that were added; none may be added later."""
        if probe.digest in self.met:
            return
        candidates = self.index.query(probe.hash)
        if candidates:
            self.met.add(probe.digest)
        for number in candidates:
            known = self.sets[number]
            best = self.best[number][0] if number in self.best else 0.0
            if best < 1.0:
                similarity = len(known & probe.shingles) / len(known | probe.shingles)
                if similarity >= THRESHOLD and similarity > best:
                    self.best[number] = similarity, probe.id, probe.text

    @property
    def near(self) -> dict[int, Near]:
        """The most similar text of each that has one, by its place among those that were added."""
        found = {}
        for place, (id, text, number) in enumerate(self.kept):
            if number in self.best:
                similarity, other_id, other_text = self.best[number]
                found[place] = Near(similarity, id, text, other_id, other_text)
        return found


def shingles(said: list[str], length: int) -> frozenset[str]:
    """The runs of `length` neighbouring words; a shorter text is one run."""
    return frozenset(" ".join(said[at : at + length]) for at in range(max(1, len(said) - length + 1)))
