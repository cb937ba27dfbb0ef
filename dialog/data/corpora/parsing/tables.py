"""Read tables of comma- or tab-separated cells, with an error for each row that cannot be read."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal

from dialog.data.corpora.parsing.lines import text_lines
from dialog.data.corpora.parsing.records import shortened
from dialog.errors import UserError

DELIMITERS = (",", ";", "\t")
LONGEST_ROW = 2**17
"""Characters that a row may span after its first line; a longer row has an unclosed quote."""

MOST_REREAD = 2**24, 8
"""Limit on characters reread after failed rows: a constant, and a factor of the characters read."""


class RowError(UserError):
    """A row that cannot be read.

    Args:
        message: The error.
        cells: Best guess at the cells of its first line, by column.
    """

    def __init__(self, message: str, cells: Mapping[str, str]) -> None:
        super().__init__(message)
        self.cells = cells


Row = dict[str, str] | RowError
"""The cells of a row by column, or its error."""


def table(
    path: Path,
    columns: Sequence[str] = (),
    *,
    delimiter: str | None = ",",
    quotes: bool = True,
    encoding: str | None = None,
) -> Iterator[tuple[str, Row]]:
    """Yield (file:line of its start, row) for each row after the first, which names the columns.

    Columns are found in any case, such as `Text` for `text`, and the keys of the rows are then
    those of `columns`. The delimiter None is that of comma, semicolon and tab with which the first
    row names the most columns.

    Cells are separated as in Python's `csv`: quoted cells may hold the delimiter and line ends.
    Blank rows are skipped. If quotes are wrong, or a row of several lines does not have the width
    of the first row, only the line on which it starts is malformed, and the next line is read as a
    row.

    Raises:
        UserError: the first row cannot be read or does not name each of `columns` once; or wrong
            quotes make more text be read again than `MOST_REREAD` allows.
    """
    rows = _rows(path, delimiter or _delimiter(path, columns, quotes, encoding), quotes, encoding)
    place, names, problem = next(rows)
    names = _in_case_of(columns, names)
    if problem:
        raise UserError(f"{place}: {problem}")
    for column in columns:
        if names.count(column) != 1:
            count = "more than one" if column in names else "no"
            problem = f"{count} column {column!r} among {', '.join(names)}"
            raise UserError(
                shortened(
                    f"{place}: {problem}; the first row should name it once (see data.corpus)"
                )
            )
    for place, values, problem in rows:
        if values and not problem and len(values) != len(names):
            problem = (
                f"{len(values)} columns, but {len(names)} names in the first row; correct the row"
            )
        if problem:
            yield place, RowError(f"{place}: {problem}", dict(zip(names, values, strict=False)))
        elif values:
            yield place, dict(zip(names, values, strict=True))


def cells(row: Row) -> dict[str, str]:
    """Return the cells of a row of `table`, or raise its error."""
    if isinstance(row, RowError):
        raise row
    return row


def _delimiter(path: Path, columns: Sequence[str], quotes: bool, encoding: str | None) -> str:
    def names_of(delimiter: str) -> set[str]:
        _, names, _ = next(_rows(path, delimiter, quotes, encoding))
        return set(_in_case_of(columns, names))

    # the first with the most columns: a wrong one of several is then named among the right names
    return max(DELIMITERS, key=lambda delimiter: len(names_of(delimiter).intersection(columns)))


def _in_case_of(columns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the names; one that equals a missing column but for case and outer white space is that
    column.
    """
    missing = {column.casefold(): column for column in columns if column not in names}
    return [missing.get(name.strip().casefold(), name) for name in names]


def _rows(
    path: Path, delimiter: str, quotes: bool, encoding: str | None
) -> Iterator[tuple[str, list[str], str]]:
    """Yield (file:line, cells, "") or (file:line, cells of the first line, problem)."""
    csv.field_size_limit(2**31 - 1)  # lines and rows have limits of their own
    lines = (line + "\n" for _, line in text_lines(path, encoding))
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE

    def split(lines: Iterable[str], *, strict: bool) -> list[str]:
        return next(csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=strict))

    ahead: deque[str] = deque()
    number = width = read = reread = 0
    while first := ahead.popleft() if ahead else next(lines, None):
        number += 1
        place = f"{path}:{number}"
        more: list[str] = []
        try:
            row = split(chain([first], _following(ahead, lines, more)), strict=True)
            width = width or len(row)
            if more and len(row) != width:
                raise csv.Error(f"{len(row)} columns, but {width} names in the first row")
        except csv.Error as error:
            problem = "a quote is not closed" if "unexpected end" in str(error) else str(error)
            yield (
                place,
                _first_line_cells(first, split),
                f"{problem}; correct the row or its quotes",
            )
            ahead.extendleft(reversed(more))
            reread += sum(map(len, more))
            if reread > MOST_REREAD[0] + MOST_REREAD[1] * read:
                raise UserError(
                    f"{place}: too many rows of this table have wrong quotes; correct them"
                ) from error
        else:
            number += len(more)
            yield place, row, ""
        read += len(first)


def _first_line_cells(line: str, split: Callable[..., list[str]]) -> list[str]:
    try:
        return split([line.rstrip("\n")], strict=False)
    except csv.Error:
        return []


def _following(ahead: deque[str], lines: Iterator[str], more: list[str]) -> Iterator[str]:
    """Yield the lines after a row's first, from `ahead`, then from `lines`, and append them to
    `more`.
    """
    size = 0
    while size < LONGEST_ROW and (line := ahead.popleft() if ahead else next(lines, None)):
        size += len(line)
        more.append(line)
        yield line
