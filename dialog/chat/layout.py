"""Text in columns of a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest

from dialog.report.terminal import display_width, fitting_length

GAP = 4
LONGEST_WORD = 40
"""Columns after which a streamed word is shown before its end."""


def side_by_side(texts: Sequence[str], width: int) -> list[str]:
    """Return the lines of texts in columns of equal width, `width` columns together."""
    column = (width - GAP * (len(texts) - 1)) // len(texts)
    rows = zip_longest(*(wrap(text, column) for text in texts), fillvalue="")
    return [
        (" " * GAP).join(line + " " * (column - display_width(line)) for line in row).rstrip()
        for row in rows
    ]


def fold(line: str, width: int) -> list[str]:
    """Break a line at white space into lines of at most `width` columns, below the last column of a
    table row.
    """
    if display_width(line) <= width:
        return [line]
    indent = max((match.end() for match in re.finditer(r"\s{2,}", line[: width // 2])), default=0)
    first, *others = wrap(line[indent:], width - indent)
    return [line[:indent] + first, *(" " * indent + other for other in others)]


class WordStream:
    """Breaks text that arrives in pieces at spaces into lines of at most `width` columns.

    A word is returned when it is complete, wide characters at once.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.column = 0
        self.gap = self.word = ""

    def add(self, piece: str) -> str:
        """Return the text that can be shown after another piece."""
        shown = ""
        for char in piece:
            if char == " ":
                shown += self.end()
                self.gap += char
            else:
                self.word += char
            if display_width(char) > 1 or len(self.word) > LONGEST_WORD:
                shown += self.end()
        return shown

    def end(self) -> str:
        """Return the last word, complete or not."""
        gap = self.gap
        word = self.word
        self.gap = "" if self.word else self.gap
        self.word = ""
        size = display_width(word)
        if not word:
            return ""
        if gap and self.column + len(gap) + size > self.width:
            gap = "\n"
            self.column = -1
        self.column += len(gap) + size
        while self.column > self.width:  # the terminal breaks what has no space
            self.column -= self.width
        return gap + word


def wrap(text: str, width: int) -> list[str]:
    """Break a text at white space into lines of at most `width` columns; a longer word is split."""
    lines = [""]
    for word in text.split():
        rest = word
        if display_width(lines[-1]) + display_width(rest) + 1 <= width and lines[-1]:
            lines[-1] += f" {rest}"
            continue
        lines += [""] if lines[-1] else []
        while display_width(rest) > width:
            length = max(1, fitting_length(rest, width))
            lines[-1:] = [rest[:length], ""]
            rest = rest[length:]
        lines[-1] = rest
    return lines
