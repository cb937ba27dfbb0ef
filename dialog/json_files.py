"""Read the JSON files that this program has written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dialog.errors import UserError


def read_json(path: Path, *keys: str) -> dict[str, Any]:
    """Read a file that holds one JSON object with these keys.

    Raises:
        UserError: the file is missing, unreadable or damaged.
    """
    try:
        return _json_object(path.read_bytes(), str(path), keys)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error


def read_json_lines(path: Path, *keys: str) -> Iterator[dict[str, Any]]:
    """Read a file that holds one JSON object with these keys per line.

    Raises:
        UserError: the file is missing or unreadable, or a line is damaged.
    """
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                yield _json_object(line, f"{path}:{number}", keys)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error


def _json_object(content: bytes, where: str, keys: tuple[str, ...]) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: damaged ({error}); restore the file from a copy") from error
    missing = [key for key in keys if not isinstance(value, dict) or key not in value]
    if missing or not isinstance(value, dict):
        raise UserError(
            f"{where}: damaged (no {missing[0] if missing else 'object'}); restore the file from a"
            " copy"
        )
    return value
