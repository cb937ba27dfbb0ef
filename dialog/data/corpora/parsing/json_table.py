"""Read the rows of a table from JSON lines, or from the objects of a JSON array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from dialog.data.corpora.parsing.json_records import is_json_array, member
from dialog.data.corpora.parsing.lines import byte_lines, decode_line
from dialog.data.corpora.parsing.tables import Row, RowError
from dialog.data.reading.files import BYTE_ORDER_MARK, read_chunks
from dialog.data.reading.json_text import Json, json_members, parse_json
from dialog.errors import UserError

ABSENT = object()


def is_json_table(path: Path) -> bool:
    """Return whether a file begins with a JSON object, or is the array of a file NAME.json."""
    head = next(iter(read_chunks(path)), b"").removeprefix(BYTE_ORDER_MARK).lstrip()
    return head.startswith(b"{") or (head.startswith(b"[") and is_json_array(path))


def json_table(
    path: Path, columns: Sequence[str], encoding: str | None = None
) -> Iterator[tuple[str, Row]]:
    """Yield (place, cells of `columns`) for each object; null is an empty cell.

    An object without one of the columns, or with a list or an object there, is a `RowError`.
    """
    for place, value in _values(path, encoding):
        yield place, value if isinstance(value, RowError) else _row(value, columns, place)


def cell(value: Json) -> str | None:
    """Return a value as the text of a cell; None for a list or an object."""
    if value is None:
        return ""
    return str(value) if isinstance(value, str | int | float) else None


def _values(path: Path, encoding: str | None) -> Iterator[tuple[str, Json | RowError]]:
    if is_json_array(path):
        for key, value in json_members(path):
            place = f"{path}: record {key}"
            yield place, RowError(str(value), {}) if isinstance(value, UserError) else value
        return
    for place, raw in byte_lines(path):
        if raw.strip():
            try:
                yield place, parse_json(decode_line(raw, place, encoding), place)
            except UserError as error:
                yield place, RowError(str(error), {})


def _row(value: Json, columns: Sequence[str], place: str) -> Row:
    row: dict[str, str] = {}
    problem = ""
    for column in columns:
        found = member(value, column, ABSENT)
        text = None if found is ABSENT else cell(found)
        if text is not None:
            row[column] = text
        elif found is ABSENT:
            problem = f"no {column!r}; add it or remove the line"
        else:
            problem = f"{column!r} is {type(found).__name__}, not text; write it in quotes"
    return RowError(f"{place}: {problem}", row) if problem else row
