"""Text of unknown origin on a screen: what could command a terminal or reorder a line is shown instead of obeyed."""

from __future__ import annotations

import unicodedata
from itertools import accumulate

from dialog.escaping import COMMANDS


def printable(text: str) -> str:
    r"""The text with control and bidirectional characters, except line feed and tab, written as `\x1b` or `\u202e`."""
    return COMMANDS.sub(lambda match: _escaped(match[0]), text)


def one_line(text: str) -> str:
    r"""`printable` text with line feed and tab written as `\n` and `\t` too."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def columns(text: str) -> int:
    """Columns that a text takes on a terminal: 2 for wide characters (Chinese, emoji), 0 for combining ones."""
    return sum(_columns(char) for char in text)


def shortened(text: str, limit: int) -> str:
    """The text, or what of it fits into `limit` columns with an ellipsis at the end."""
    if columns(text) <= limit:
        return text
    return text[: fitting(text, limit - 1)] + "…"


def fitting(text: str, limit: int) -> int:
    """How many characters of a text fit into `limit` columns, from its beginning."""
    used = accumulate(map(_columns, text))
    return next((end for end, reached in enumerate(used) if reached > limit), len(text))


def _escaped(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\u{ord(char):04x}"


def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
