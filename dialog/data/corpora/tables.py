"""Tables of comma- or tab-separated cells: their rows, and what is wrong with those that are none."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Literal

from dialog.data.corpora.records import capped, numbered_lines
from dialog.errors import UserError

Row = dict[str, str] | UserError
"""The cells of a row by their columns, or what is wrong with it."""

LONGEST_ROW = 2**17
"""So many characters a row takes of the lines after its first: whatever should close its quotes is not there."""

SWALLOWED = 3
"""So many rows that quotes take in are no text of several lines: one of the quotes is astray."""


def table(
    path: Path, columns: Iterable[str] = (), *, delimiter: str = ",", quotes: bool = True, encoding: str = "utf-8"
) -> Iterator[tuple[str, Row]]:
    """(file:line where it begins, row) of each row of a table but the first, which names the columns.

    Cells are separated as Python's `csv` reads them: in quotes they may hold the delimiter and line ends. Blank rows
    are skipped. A line is malformed whose quotes are not closed, or change the row's width, or take in lines of which
    most, and three at least, are rows by themselves, as it would be without them; the next line is read as a row.

    Raises:
        UserError: the first row cannot be read, or does not name each of `columns` once.
    """
    rows = _rows(path, delimiter, quotes, encoding)
    place, names = next(rows)
    if isinstance(names, UserError):
        raise names
    for column in columns:
        if names.count(column) != 1:
            count = "more than one" if column in names else "no"
            known = f"{count} column {column!r} among {', '.join(names)}"
            raise UserError(capped(f"{place}: {known}; the first row should name it once (see data.corpus)"))
    for place, found in rows:
        if isinstance(found, UserError):
            yield place, found
        elif len(found) == len(names):
            yield place, dict(zip(names, found, strict=True))
        elif found:
            yield place, UserError(f"{place}: {len(found)} columns, but {len(names)} names in the first row; mend it")


def cells(row: Row) -> dict[str, str]:
    """The cells of a row that `table` gives, by their columns.

    Raises:
        UserError: it cannot be read.
    """
    if isinstance(row, UserError):
        raise row
    return row


def _rows(path: Path, delimiter: str, quotes: bool, encoding: str) -> Iterator[tuple[str, list[str] | UserError]]:
    csv.field_size_limit(2**31 - 1)  # a line is bounded, and so is what a row takes of those after it
    lines = (line + "\n" for _, line in numbered_lines(path, encoding))
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE

    def split(lines: Iterable[str], *, strict: bool = True) -> list[str]:
        return next(csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=strict))

    def alone(line: str) -> bool:
        try:
            return len(split([line])) == width
        except csv.Error:
            return False

    def swallows(first: str, inner: list[str]) -> bool:
        *_, last = opened = split([first], strict=False)
        rows = sum(map(alone, inner))
        return len(opened) + last.count(delimiter) == width and rows >= SWALLOWED and 2 * rows > len(inner)

    ahead: deque[str] = deque()
    number = width = 0
    while first := ahead.popleft() if ahead else next(lines, None):
        number += 1
        place = f"{path}:{number}"
        more: list[str] = []
        try:
            row = split(chain([first], _taken(ahead, lines, more)))
            width = width or len(row)
            if more and (len(row) != width or swallows(first, more[:-1])):
                raise csv.Error("a quote takes in lines that are no part of the row")
        except csv.Error as error:
            ahead.extendleft(reversed(more))
            yield place, UserError(f"{place}: {error}; mend the row, or its quotes")
        else:
            number += len(more)
            yield place, row


def _taken(ahead: deque[str], lines: Iterator[str], more: list[str]) -> Iterator[str]:
    """The lines that a row goes on with, from those ahead and then the file; `more` keeps them, up to `LONGEST_ROW`."""
    size = 0
    while size < LONGEST_ROW and (line := ahead.popleft() if ahead else next(lines, None)):
        size += len(line)
        more.append(line)
        yield line
