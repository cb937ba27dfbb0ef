"""Text in columns of a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from dialog.report.terminal import display_width, fitting_length

GAP = 4


def side_by_side(texts: Sequence[str], width: int) -> list[str]:
    """Return the lines of texts in columns of equal width, `width` columns together."""
    column = (width - GAP * (len(texts) - 1)) // len(texts)
    rows = zip_longest(*(wrap(text, column) for text in texts), fillvalue="")
    return [(" " * GAP).join(line + " " * (column - display_width(line)) for line in row).rstrip() for row in rows]


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
