"""Text of unknown origin, escaped for terminals, JSON, Markdown and LaTeX.

HTML and SVG are escaped by their writers, jinja2 and ElementTree; `printable_json` removes the
control characters that both let through.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

COMMANDS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and line feed, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional controls
    # line separators; surrogates and noncharacters, invalid in UTF-8 or XML
    "\u2028\u2029\ud800-\udfff\ufffe\uffff]"
)
"""Characters that control a terminal or reorder a line."""
MARKDOWN_SIGNS = re.compile(r"[\\`*_\[\]|~$@]|:(?=//)|(?<=www)\.", re.IGNORECASE)
"""Signs of Markdown; the last two alternatives keep bare addresses from becoming links."""
LATEX_COMMANDS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    "−": r"$-$",
    "±": r"$\pm$",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "→": r"$\rightarrow$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "†": r"$\dagger$",
    "✓": r"$\surd$",
    "✗": r"$\times$",
    "–": "--",
    "…": r"\ldots{}",
}
"""Characters that LaTeX would read as commands, and symbols of reports."""
KEY = "key"
"""Metadata of a dataclass field: its key in JSON, if that is not its name."""
LATEX_LIGATURES = re.compile(r"([-',])(?=\1)")
"""First of two characters that become one in T1: dashes, and quotation marks from apostrophes and
commas.
"""


# ------------------------------------------------------------------ terminals


def printable(text: str) -> str:
    r"""Write control and bidirectional characters, except line feed and tab, as `\x1b` or
    `\u202e`.
    """

    def escape(match: re.Match[str]) -> str:
        code = ord(match[0])
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"

    return COMMANDS.sub(escape, text)


def one_line(text: str) -> str:
    r"""Write line feed and tab as `\n` and `\t`, and all that `printable` escapes."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def is_unicode(text: str) -> bool:
    """Return whether a text has no lone surrogate, which a byte that is not UTF-8 becomes in
    arguments and input.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# ------------------------------------------------------------------ JSON


def to_json(content: object, indent: int | None = None) -> str:
    """Return JSON of values and dataclasses, with null for numbers that are not finite and with
    terminal control characters escaped.
    """
    text = json.dumps(finite(content), ensure_ascii=False, allow_nan=False, indent=indent)
    return COMMANDS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)  # all inside strings


def json_copy(content: object) -> dict[str, Any]:
    """Return what a reader of the JSON gets, so that values in memory are those of the file."""
    values: dict[str, Any] = json.loads(to_json(content))
    return values


def finite(content: object) -> object:
    """Return a copy with None for NaN and infinities, which JSON lacks, and mappings for
    dataclasses.
    """
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, str):
        return content
    if isinstance(content, list | tuple):
        return [finite(value) for value in content]
    if isinstance(content, Mapping):
        return {key: finite(value) for key, value in content.items()}
    if is_dataclass(content) and not isinstance(content, type):
        keys = json_keys(type(content))
        return {key: finite(getattr(content, name)) for name, key in keys.items()}
    return content


@cache
def json_keys(kind: type) -> Mapping[str, str]:
    """Return the key in JSON of each field of a dataclass."""
    return {item.name: item.metadata.get(KEY, item.name) for item in fields(kind)}


def printable_json(value: Any) -> Any:
    """Apply `printable` to all texts of a JSON value; HTML forbids control characters."""
    return map_texts(value, printable)


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value with other texts, in mappings (keys also), lists, tuples and dataclasses."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {map_texts(key, change): map_texts(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [map_texts(item, change) for item in value]
    if isinstance(value, tuple):
        return tuple(map_texts(item, change) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = {item.name: getattr(value, item.name) for item in fields(value)}
        return replace(value, **map_texts(parts, change))
    return value


# ------------------------------------------------------------------ documents


def escape_markdown(text: str) -> str:
    """Escape text for one cell of a Markdown table."""
    text = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return MARKDOWN_SIGNS.sub(r"\\\g<0>", text).replace("\n", "<br>").replace("\t", " ")


def escape_latex(text: str) -> str:
    """Escape text for LaTeX; it stays one line of text in any compiler.

    A star or bracket at the start would be read as an argument of a line break before it. Letters
    that pdflatex has no glyph for are written as code points.
    """
    text = LATEX_LIGATURES.sub("\\1\0", one_line(text))
    escaped = "".join("{}" if char == "\0" else _latex_character(char) for char in text)
    return f"{{{escaped[0]}}}{escaped[1:]}" if escaped[:1] in ("*", "[") else escaped


def _latex_character(char: str) -> str:
    if char in LATEX_COMMANDS:
        return LATEX_COMMANDS[char]
    return char if char.isascii() or "À" <= char <= "ÿ" else f"{{[}}U+{ord(char):04X}{{]}}"
