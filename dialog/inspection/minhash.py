"""Texts that are much alike, found without comparing each with each."""

from __future__ import annotations

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
        self.hash = RMinHash(num_perm=PERMUTATIONS, seed=1)
        self.hash.update(list(self.shingles))


class Index:
    """Texts, and for each the most similar one of those that were met, if one was similar enough.

    MinHash finds the candidates; the similarity of each, |A ∩ B| / |A ∪ B| of their shingles, is then counted out.
    """

    def __init__(self) -> None:
        self.index = RMinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS, num_bands=BANDS)
        self.kept: list[tuple[str, str, frozenset[str]]] = []
        self.near: dict[int, Near] = {}

    def add(self, probe: Probe) -> None:
        """Append a text."""
        self.index.insert(len(self.kept), probe.hash)
        self.kept.append((probe.id, probe.text, probe.shingles))

    def meet(self, probe: Probe) -> None:
        """Hold a text of the other side against all that were added."""
        for number in self.index.query(probe.hash):
            id, text, known = self.kept[number]
            best = self.near[number].similarity if number in self.near else 0.0
            if best < 1.0:
                similarity = len(known & probe.shingles) / len(known | probe.shingles)
                if similarity >= THRESHOLD and similarity > best:
                    self.near[number] = Near(similarity, id, text, probe.id, probe.text)


def shingles(said: list[str], length: int) -> frozenset[str]:
    """The runs of `length` neighbouring words; a shorter text is one run."""
    return frozenset(" ".join(said[at : at + length]) for at in range(max(1, len(said) - length + 1)))
