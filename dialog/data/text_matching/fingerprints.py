"""Text normalisation and 64-bit text hashes, which let a corpus of any size be compared with itself
in arrays.

Two different texts collide with probability 2^-64; among a billion texts, the probability of any
collision is 3 %.
"""

from __future__ import annotations

import re
import unicodedata
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
"""Multiplier for hashes. It is odd, so the multiplication loses no information."""

_NO_WORDS = re.compile("[^a-z0-9]+")
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])"
)
"""Characters of scripts without spaces between words: Thai, Lao, Burmese, Khmer, Kana, Han."""


# ------------------------------------------------------------------ normalisations


def collapse_whitespace(text: str) -> str:
    """Replace each run of white space by one space and strip both ends."""
    return " ".join(text.split())


def normalise_words(text: str) -> str:
    """Return the lower-case words of a text, separated by single spaces; everything but letters and
    digits separates.

    Letters and digits are `[a-z0-9]` in ASCII text. In other text they are those of Unicode with
    their combining marks, in NFC, and each character of a script without spaces is a word.
    """
    if text.isascii():
        return _NO_WORDS.sub(" ", text.lower()).strip()
    composed = unicodedata.normalize("NFC", text.lower())
    kept = "".join(char if _is_word_character(char) else " " for char in composed)
    return " ".join(_UNSPACED.sub(r" \1 ", kept).split())


def is_unspaced_script(text: str) -> bool:
    """Return whether most characters of a text belong to scripts without spaces between words."""
    return 2 * len(_UNSPACED.findall(text)) > sum(not char.isspace() for char in text)


def letters_and_digits(text: str) -> str:
    """Return `normalise_words` without its spaces, in NFC; differences in tokenisation
    disappear.
    """
    return unicodedata.normalize("NFC", normalise_words(text).replace(" ", ""))


NORMALISATIONS: dict[str, Callable[[str], str]] = {
    "verbatim": collapse_whitespace,
    "words": normalise_words,
    "letters": letters_and_digits,
}


def _is_word_character(char: str) -> bool:
    return char.isalnum() or unicodedata.category(char).startswith("M")


# ------------------------------------------------------------------ hashes


def hash_texts(texts: Iterable[str]) -> Hashes:
    """Hash each text to 8 bytes of BLAKE2b [N]."""
    digests = b"".join(blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def hash_pairs(first: Hashes, second: Hashes) -> Hashes:
    """Combine the hashes of each ordered pair (first, second) into one."""
    return first * FACTOR + second


def hash_facts(dialogue: Dialogue, normalise: Callable[[str], str]) -> Hashes:
    """Hash the facts of a dialogue and who knows them [1]."""
    return hash_texts(
        ["\n".join(f"{fact.speaker}\t{normalise(fact.text)}" for fact in dialogue.facts)]
    )


def contained_in(values: Hashes, sorted_values: Hashes) -> Flags:
    """Return for each value whether it occurs in a sorted array [N]."""
    if not len(sorted_values):
        return np.zeros(len(values), dtype=bool)
    positions = np.minimum(np.searchsorted(sorted_values, values), len(sorted_values) - 1)
    return np.asarray(sorted_values[positions] == values)


def repeats_earlier(values: NDArray[Any]) -> Flags:
    """Return for each value whether it also occurs earlier in the array [N]."""
    repeated = np.ones(len(values), dtype=bool)
    repeated[np.unique(values, return_index=True)[1]] = False
    return repeated
