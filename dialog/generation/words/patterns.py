"""Words as patterns of symbols, and texts as symbols: letters without their case, and
boundaries.
"""

from __future__ import annotations

from functools import cache
from unicodedata import normalize

from dialog.metrics.words import UNDETERMINED, detect_language

BOUNDARY = "\0"
"""Symbol of a character between words, and of both ends of a text."""
GAP = frozenset((0xC2, *range(0xE2, 0xEA), 0xEF, *range(0xF0, 0xF5)))
"""First bytes of the UTF-8 of other characters between words.

C2: Latin-1 punctuation, E2: general punctuation and symbols, E3 to E9: punctuation, kana and Han,
EF: full width and U+FFFD, F0 to F4: emoji. The few letters among them, such as superscripts, count
as gaps too.
"""
CASED = range(0x80, 0x20000)
"""All characters beyond ASCII that have a case, and many that have none."""


def symbols(text: str, *, spaced: bool) -> str:
    """Return the symbols of a text: `BOUNDARY` for ASCII that is neither letter nor digit, else
    letters without case.

    If words are `spaced`, each character of `GAP` is a `BOUNDARY` too.
    """
    return "".join(symbols_of(character, spaced) for character in text)


def symbols_of(character: str, spaced: bool) -> str:
    """Return the symbols of a character; some letters, such as ß, have two."""
    if character.isascii():
        return character.lower() if character.isalnum() else BOUNDARY
    return BOUNDARY if spaced and first_byte(character) in GAP else character.casefold()


def first_byte(character: str) -> int:
    """Return the first byte of the UTF-8 of a character."""
    return character.encode(errors="surrogatepass")[0]


def is_spaced(word: str) -> bool:
    """Return whether a word needs boundaries: it has no letter of a script without spaces, or of
    `GAP`.
    """
    return word.isascii() or (
        detect_language([word]) == UNDETERMINED
        and not any(character.isalnum() and first_byte(character) in GAP for character in word)
    )


def pattern(word: str) -> str:
    """Return the symbols of a word with boundaries; without them in a script that has no spaces.

    Raises:
        ValueError: a word without a letter or digit, or one that UTF-8 does not have.
    """
    spaced = is_spaced(word)
    inner = symbols(normalize("NFC", word.strip()), spaced=spaced)
    inner.encode()
    if not inner.strip(BOUNDARY):
        raise ValueError(f"{word!r} has no letter or digit; banned and required words need one")
    return f"{BOUNDARY}{inner}{BOUNDARY}" if spaced else inner


def occurs(word: str, text: str) -> bool:
    """Return whether a text contains a word between boundaries."""
    return (
        pattern(word)
        in f"{BOUNDARY}{symbols(normalize('NFC', text), spaced=is_spaced(word))}{BOUNDARY}"
    )


@cache
def case_variants() -> tuple[str, ...]:
    """Return the characters beyond ASCII that differ from their form without case."""
    return tuple(chr(code) for code in CASED if chr(code).casefold() != chr(code))
