"""Untrusted text in a terminal: control and bidirectional characters are shown as escapes, never executed."""

from __future__ import annotations

import unicodedata
from itertools import accumulate

from dialog.escaping import COMMANDS


def printable(text: str) -> str:
    r"""Write control and bidirectional characters, except line feed and tab, as `\x1b` or `\u202e`."""
    return COMMANDS.sub(lambda match: _escape(match[0]), text)


def one_line(text: str) -> str:
    r"""Write line feed and tab as `\n` and `\t`, and all that `printable` escapes."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def display_width(text: str) -> int:
    """Return the terminal columns of a text: 2 for wide characters (Chinese, emoji), 0 for combining ones."""
    return sum(_character_width(char) for char in text)


def truncate(text: str, limit: int) -> str:
    """Truncate a text to `limit` columns, with an ellipsis at the end."""
    if display_width(text) <= limit:
        return text
    return text[: fitting_length(text, limit - 1)] + "…"


def fitting_length(text: str, limit: int) -> int:
    """Return the number of leading characters that fit into `limit` columns."""
    widths = accumulate(map(_character_width, text))
    return next((index for index, width in enumerate(widths) if width > limit), len(text))


def _escape(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\u{ord(char):04x}"


def _character_width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
