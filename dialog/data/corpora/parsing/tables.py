"""Tables of comma- or tab-separated cells: their rows, and what is wrong with those that are none."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Literal

from dialog.data.corpora.parsing.records import capped, numbered_lines
from dialog.errors import UserError

LONGEST_ROW = 2**17
"""So many characters a row takes of the lines after its first: whatever should close its quotes is not there."""

IN_VAIN = 2**24, 8
"""So many characters, and so many for each of the file, may be taken by rows that turn out not to be any."""


class RowError(UserError):
    """A row that cannot be read.

    Args:
        message: What is wrong with it.
        cells: What its first line seems to hold, by column.
    """

    def __init__(self, message: str, cells: Mapping[str, str]) -> None:
        super().__init__(message)
        self.cells = cells


Row = dict[str, str] | RowError
"""The cells of a row by their columns, or what is wrong with it."""


def table(
    path: Path, columns: Iterable[str] = (), *, delimiter: str = ",", quotes: bool = True, encoding: str = "utf-8"
) -> Iterator[tuple[str, Row]]:
    """(file:line where it begins, row) of each row of a table but the first, which names the columns.

    Cells are separated as Python's `csv` reads them: in quotes they may hold the delimiter and line ends. Blank rows
    are skipped. Where quotes are wrong, or a row of several lines is not as wide as the first one, the line on which it
    begins is malformed, and the next is read as a row.

    Raises:
        UserError: the first row cannot be read, or does not name each of `columns` once; or quotes are wrong so often
            that looking for their ends would take longer than a file of this size should.
    """
    rows = _rows(path, delimiter, quotes, encoding)
    place, names, wrong = next(rows)
    if wrong:
        raise UserError(f"{place}: {wrong}")
    for column in columns:
        if names.count(column) != 1:
            count = "more than one" if column in names else "no"
            known = f"{count} column {column!r} among {', '.join(names)}"
            raise UserError(capped(f"{place}: {known}; the first row should name it once (see data.corpus)"))
    for place, found, wrong in rows:
        if found and not wrong and len(found) != len(names):
            wrong = f"{len(found)} columns, but {len(names)} names in the first row; mend it"
        if wrong:
            yield place, RowError(f"{place}: {wrong}", dict(zip(names, found, strict=False)))
        elif found:
            yield place, dict(zip(names, found, strict=True))


def cells(row: Row) -> dict[str, str]:
    """The cells of a row that `table` gives, by their columns.

    Raises:
        UserError: it cannot be read.
    """
    if isinstance(row, RowError):
        raise row
    return row


def _rows(path: Path, delimiter: str, quotes: bool, encoding: str) -> Iterator[tuple[str, list[str], str]]:
    """(file:line, cells, what is wrong) of each row; of a wrong one the cells that its first line may hold."""
    csv.field_size_limit(2**31 - 1)  # a line is bounded, and so is what a row takes of those after it
    lines = (line + "\n" for _, line in numbered_lines(path, encoding))
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE

    def split(lines: Iterable[str], *, strict: bool) -> list[str]:
        return next(csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=strict))

    ahead: deque[str] = deque()
    number = width = read = in_vain = 0
    while first := ahead.popleft() if ahead else next(lines, None):
        number += 1
        place = f"{path}:{number}"
        more: list[str] = []
        try:
            row = split(chain([first], _taken(ahead, lines, more)), strict=True)
            width = width or len(row)
            if more and len(row) != width:
                raise csv.Error(f"{len(row)} columns, but {width} names in the first row")
        except csv.Error as error:
            what = "a quote is not closed" if "unexpected end" in str(error) else str(error)
            yield place, _seeming(first, split), f"{what}; mend the row, or its quotes"
            ahead.extendleft(reversed(more))
            in_vain += sum(map(len, more))
            if in_vain > IN_VAIN[0] + IN_VAIN[1] * read:
                raise UserError(f"{place}: quotes are wrong all over this table; mend them") from error
        else:
            number += len(more)
            yield place, row, ""
        read += len(first)


def _seeming(line: str, split: Callable[..., list[str]]) -> list[str]:
    try:
        return split([line.rstrip("\n")], strict=False)
    except csv.Error:
        return []


def _taken(ahead: deque[str], lines: Iterator[str], more: list[str]) -> Iterator[str]:
    """The lines that a row goes on with, from those ahead and then the file; `more` keeps them, up to `LONGEST_ROW`."""
    size = 0
    while size < LONGEST_ROW and (line := ahead.popleft() if ahead else next(lines, None)):
        size += len(line)
        more.append(line)
        yield line
