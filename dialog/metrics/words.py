"""Words of any script, and the languages that are written without spaces."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

UNDETERMINED = "und"
"""Language code (ISO 639) of a script with spaces, which does not tell the language."""
SCRIPTS = {
    "zh": "\u3005-\u3007\u3100-\u312f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff",
    "ja": "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f",
    "th": "\u0e01-\u0e3a\u0e40-\u0e5b",
    "lo": "\u0e81-\u0eff",
    "my": "\u1000-\u109f",
    "km": "\u1780-\u17ff",
    "bo": "\u0f00-\u0fff",
}
"""Letters of scripts without spaces between words, by language: Han, kana, Thai, Lao, Burmese,
Khmer, Tibetan.
"""
_LETTER = re.compile(
    "|".join(f"(?P<{language}>[{letters}])" for language, letters in SCRIPTS.items())
)
JAPANESE = 0.1
"""Share of kana from which text of Han and kana is Japanese."""


def words(text: str) -> list[str]:
    """Split at white space; each letter of a script without spaces is a word.

    Text of other scripts is split as by `str.split`.
    """
    return (text if text.isascii() else _LETTER.sub(r" \g<0> ", text)).split()


def detect_language(texts: Iterable[str]) -> str:
    """Return the language that most words of the texts are written in if its script has no spaces,
    else "und".
    """
    letters: Counter[str] = Counter()
    spaced = 0
    for text in texts:
        letters.update(str(letter.lastgroup) for letter in _LETTER.finditer(text))
        spaced += sum(any(map(str.isalpha, word)) for word in _LETTER.sub(" ", text).split())
    if letters.total() <= spaced:
        return UNDETERMINED
    if letters["ja"] > JAPANESE * (letters["ja"] + letters["zh"]):
        letters["ja"] += letters.pop("zh", 0)
    return letters.most_common(1)[0][0]
