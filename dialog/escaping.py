"""JSON without control characters, for text of unknown origin."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

COMMANDS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and line feed, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional controls
    # line separators; surrogates and noncharacters, invalid in UTF-8 or XML
    "\u2028\u2029\ud800-\udfff\ufffe\uffff]"
)
"""Characters that control a terminal or reorder a line."""


def to_json(content: object, indent: int | None = None) -> str:
    """Return JSON with null for numbers that are not finite and with terminal control characters
    escaped.
    """
    text = json.dumps(finite(content), ensure_ascii=False, allow_nan=False, indent=indent)
    return COMMANDS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)  # all inside strings


def json_copy(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a reader of the JSON gets, so that values in memory are those of the file."""
    values: dict[str, Any] = json.loads(to_json(content))
    return values


def finite(content: object) -> object:
    """Return a copy with None for NaN and infinities, which JSON lacks."""
    if isinstance(content, Mapping):
        return {key: finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
