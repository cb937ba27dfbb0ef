"""Text of terminals: paragraphs and tables of a given width, and an evaluation."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any

from dialog.escaping import one_line
from dialog.report.formats.metrics import (
    LOSSY_NOTE,
    lossy_mark,
    metric_display,
    metric_value,
    sort_metrics,
)
from dialog.report.tables import ReportTable, RowGroup, metric_label, text_row

NARROW = 10
WIDE = 18
"""Columns of a heading that is not broken into lines, and of a line of one that is."""
LABEL = 28
NUMBER = 14
"""Widths of columns."""
GAP = 2
"""Spaces between the columns of a table."""
REFERENCE_METRICS = ("bits_per_byte", "f1", "sacrebleu", "distinct_2", "length_mean")
"""Metrics of the reference rows that are shown; metrics.json has all."""


def display_width(text: str) -> int:
    """Return the terminal columns of a text: 2 for wide characters (Chinese, emoji), 0 for
    combining ones.
    """
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


def wrapped(text: str, width: int) -> str:
    """Break escaped text between words into lines of at most `width` columns, if its words are not
    longer.
    """
    return textwrap.fill(one_line(text), width, break_long_words=False, break_on_hyphens=False)


def _character_width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


# ------------------------------------------------------------------ tables


def fitted(table: ReportTable, width: int, less_needed: Sequence[str] = ()) -> str:
    """Return a table in lines of at most `width` columns, if a column with its row headings is not
    wider.

    Columns with headings in `less_needed` are left out in this order until the others fit. If the
    others do not fit either, all but the first of these become several tables, one below the other.
    """
    for left_out in range(len(less_needed) + 1):
        shown = _without(table, less_needed[:left_out])
        if _width(shown) <= width:
            return aligned(shown)
    shown = _without(table, less_needed[:1])
    parts = divided(_columns(shown)[1], width)
    return "\n\n".join(aligned(_filled(shown.select(part))) for part in parts)


def divided(widths: Sequence[int], limit: int) -> list[list[int]]:
    """Divide columns of these widths into parts of at most `limit`, if possible; each has the first
    column.
    """
    parts = [[0]]
    for column, width in enumerate(widths[1:], start=1):
        if len(parts[-1]) > 1 and sum(widths[before] + GAP for before in parts[-1]) + width > limit:
            parts.append([0])
        parts[-1].append(column)
    return parts


def aligned(table: ReportTable) -> str:
    """Return a table in aligned columns, with `*` after decided cells and a rule above each group.

    A heading that is wider than its column is broken into lines.
    """
    headings, widths = _columns(table)
    height = max(map(len, headings))
    padded = ([""] * (height - len(lines)) + lines for lines in headings)
    lines = [_align(row, widths) for row in zip(*padded, strict=True)]
    for title, rows in table.texts(one_line, _decided):
        lines.append("-" * _width(table))
        lines += [title] if title else []
        lines += (_align(row, widths) for row in rows)
    return "\n".join(lines)


def break_heading(heading: str, width: int) -> list[str]:
    """Break a heading after slashes and spaces and before brackets, into lines of at most `width`
    columns if possible.

    A part of more than `WIDE` columns is broken after other signs also, or anywhere.
    """
    lines = [""]
    for part in heading_pieces(heading):
        if lines[-1] and display_width((lines[-1] + part).rstrip()) > width:
            lines.append(part)
        else:
            lines[-1] += part
    return [line.rstrip() for line in lines]


def heading_pieces(heading: str) -> list[str]:
    """Return the pieces of a heading, between which a line may end."""
    return [*chain.from_iterable(map(_pieces, re.split(r"(?<=[/ ])|(?=\[)", heading)))]


def _pieces(part: str) -> Iterator[str]:
    if display_width(part) <= WIDE:
        yield part
        return
    for piece in re.split(r"(?<=[_.=,-])", part):
        rest = piece
        while display_width(rest) > WIDE:
            length = fitting_length(rest, WIDE)
            yield rest[:length]
            rest = rest[length:]
        yield rest


def _without(table: ReportTable, names: Sequence[str]) -> ReportTable:
    """Return a table without the columns of these names."""
    return table.select([column for column, name in enumerate(table.head) if name not in names])


def _filled(table: ReportTable) -> ReportTable:
    """Return a table without rows that have a heading only, as those of a part of a table may."""
    groups = (
        RowGroup(title, tuple(row for row in rows if any(cell.text for cell in row[1:])))
        for title, rows in table.groups
    )
    return table._replace(groups=tuple(group for group in groups if group.rows))


def column_widths(table: ReportTable) -> list[int]:
    """Return the columns into which the lines of each heading should fit: the widest cell, at least
    `NARROW`.
    """
    rows = [row for _, rows in table.texts(one_line, _decided) for row in rows]
    return [max(NARROW, *map(display_width, cells)) for cells in zip(*rows, strict=True)]


def _columns(table: ReportTable) -> tuple[list[list[str]], list[int]]:
    """Return the lines of each heading, and the widths of the columns."""
    rows = [row for _, rows in table.texts(one_line, _decided) for row in rows]
    headings = [
        break_heading(one_line(name), width)
        for name, width in zip(table.head, column_widths(table), strict=True)
    ]
    columns = zip(headings, *rows, strict=True)
    widths = [max(map(display_width, (*lines, *cells))) for lines, *cells in columns]
    return headings, widths


def _width(table: ReportTable) -> int:
    _, widths = _columns(table)
    return sum(widths) + GAP * (len(widths) - 1)


def _decided(text: str) -> str:
    return f"{text} *"


def _align(cells: Sequence[str], widths: Sequence[int]) -> str:
    heading = cells[0] + " " * (widths[0] - display_width(cells[0]))
    others = (
        " " * (width - display_width(text)) + text
        for text, width in zip(cells[1:], widths[1:], strict=True)
    )
    return (" " * GAP).join((heading, *others)).rstrip()


# ------------------------------------------------------------------ an evaluation


def evaluation_lines(metrics: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines for the content of a metrics.json."""
    parts = [part for part in metrics.get("subsets", {}).items() if part[1]["examples"]]
    if parts:
        yield _line("", ["all", *(name for name, _ in parts)])
    for name in sort_metrics(set(metrics)):
        if metric_value(metrics[name]) is not None:
            columns = [
                _format(name, part.get(name)) for part in (metrics, *(part for _, part in parts))
            ]
            yield _line(metric_label(name), columns) + lossy_mark(name, metrics)
    if metrics.get("baselines"):
        yield ""
        yield aligned(_reference_table(metrics["baselines"]))
    if not metrics["lossless"]:
        yield LOSSY_NOTE.strip()
    for name, value in metrics.items():
        if isinstance(value, Mapping) and "signature" in value:
            yield f"{metric_display(name).label}: {value['signature']}"


def _reference_table(rows: Mapping[str, Mapping[str, Any]]) -> ReportTable:
    head = ("Reference", *(metric_display(name).label for name in REFERENCE_METRICS))
    cells = (
        text_row(
            row.replace("_", " "), *(_format(name, values.get(name)) for name in REFERENCE_METRICS)
        )
        for row, values in rows.items()
    )
    return ReportTable(head, (RowGroup("", tuple(cells)),))


def _line(label: str, columns: Sequence[str]) -> str:
    return f"{label:<{LABEL}}{''.join(f'{column:>{NUMBER}}' for column in columns)}".rstrip()


def _format(name: str, value: object) -> str:
    number = metric_value(value)
    return "" if number is None else metric_display(name).format(number)
