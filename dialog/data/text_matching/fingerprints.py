"""What is said as 64-bit numbers, so that a corpus of any size can be held against itself in arrays.

Two texts that differ share a number with a chance of 2^-64: among a billion of them, that any two do, 3 %.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dialog.data.dialogue import Dialogue

Hashes = NDArray[np.uint64]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that no information is lost when a hash is multiplied by it."""

_NO_WORDS = re.compile("[^a-z0-9]+")
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])"
)
"""Characters of scripts that put no spaces between words: Thai, Lao, Burmese, Khmer, Kana, Han."""


# ------------------------------------------------------------------ normalisations


def verbatim(text: str) -> str:
    """The text with each run of white space as one space, and none at its ends."""
    return " ".join(text.split())


def words(text: str) -> str:
    """Lower-case words with a space between: each run of what is neither letter nor digit becomes one.

    Letters and digits are `[a-z0-9]` in ASCII text; in other text they are those of Unicode, with the marks that they
    bear, in NFC, and each character of a script without spaces is a word.
    """
    if text.isascii():
        return _NO_WORDS.sub(" ", text.lower()).strip()
    composed = unicodedata.normalize("NFC", text.lower())
    kept = "".join(char if _of_a_word(char) else " " for char in composed)
    return " ".join(_UNSPACED.sub(r" \1 ", kept).split())


def unspaced(text: str) -> bool:
    """Whether most of a text is of scripts that put no spaces between words."""
    return 2 * len(_UNSPACED.findall(text)) > sum(not char.isspace() for char in text)


def letters(text: str) -> str:
    """The letters and digits of `words`, without spaces, in NFC again: tokenisation makes no difference."""
    return unicodedata.normalize("NFC", words(text).replace(" ", ""))


NORMALISATIONS: dict[str, Callable[[str], str]] = {"verbatim": verbatim, "words": words, "letters": letters}


def _of_a_word(char: str) -> bool:
    return char.isalnum() or unicodedata.category(char).startswith("M")


# ------------------------------------------------------------------ hashes


def hashes(texts: Iterable[str]) -> Hashes:
    """A number for each text: 8 bytes of BLAKE2b."""
    digests = b"".join(blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def joined(first: Hashes, second: Hashes) -> Hashes:
    """A number for each (first, second) in this order."""
    return first * FACTOR + second


class Said:
    """Collects the numbers of dialogues one by one, 8 bytes a turn and 16 a dialogue.

    Args:
        normalise: What counts as the same text.
    """

    def __init__(self, normalise: Callable[[str], str]) -> None:
        self.normalise = normalise
        self._turns, self._facts, self._offsets = array("Q"), array("Q"), array("q", [0])

    def add(self, dialogue: Dialogue) -> None:
        """Append a dialogue."""
        self._turns.frombytes(hashes(self.normalise(turn.text) for turn in dialogue.turns).tobytes())
        facts = "\n".join(f"{fact.speaker}\t{self.normalise(fact.text)}" for fact in dialogue.facts)
        self._facts.frombytes(hashes([facts]).tobytes())
        self._offsets.append(len(self._turns))

    @property
    def turns(self) -> Hashes:
        """A number for each turn, dialogue after dialogue [turns]."""
        return np.array(self._turns, dtype=np.uint64)

    @property
    def offsets(self) -> Integers:
        """Where each dialogue begins in `turns`, and at last where they end [dialogues + 1]."""
        return np.array(self._offsets, dtype=np.int64)

    @property
    def answers(self) -> Integers:
        """Where in `turns` those are that answer another [pairs]."""
        later = np.ones(len(self._turns), dtype=bool)
        later[self.offsets[:-1][np.diff(self.offsets) > 0]] = False
        return np.flatnonzero(later)

    def histories(self) -> Hashes:
        """A number for all that is said in a dialogue up to and with each turn, its facts included [turns]."""
        said, offsets = self.turns, self.offsets
        lengths = np.diff(offsets)
        order = np.argsort(-lengths, kind="stable")[: np.count_nonzero(lengths)]  # the longest first
        starts, lengths = offsets[:-1][order], lengths[order]
        said[starts] += np.array(self._facts, dtype=np.uint64)[order] * FACTOR
        for turn in range(1, int(lengths.max(initial=0))):
            places = starts[: np.searchsorted(-lengths, -turn)] + turn
            said[places] += said[places - 1] * FACTOR
        return said


def among(found: Hashes, known: Hashes) -> Flags:
    """Which are in `known`, whose numbers stand in order [N]."""
    if not len(known):
        return np.zeros(len(found), dtype=bool)
    places = np.minimum(np.searchsorted(known, found), len(known) - 1)
    return np.asarray(known[places] == found)


def repeats(found: NDArray[Any]) -> Flags:
    """Which stand earlier in the array too [N]."""
    again = np.ones(len(found), dtype=bool)
    again[np.unique(found, return_index=True)[1]] = False
    return again
