"""An inspection for the terminal and as an HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from dialog.atomic import write_text
from dialog.escaping import one_line, printable_json
from dialog.inspection.findings import BarChart, Finding, Quotation, Severity, Table
from dialog.inspection.inspect import Inspection
from dialog.report.formats.numbers import count
from dialog.report.page import render_page
from dialog.report.terminal import display_width, fitting_length, truncate

MARKS: dict[Severity, tuple[str, str]] = {
    "good": ("✓", "green"),
    "look": ("!", "yellow"),
    "bad": ("✗", "red"),
}
MINIMUM_WIDTH = 60
LABEL_WIDTH = 34
BAR_WIDTH = 30
QUOTED_LINES = 3
"""Lines to which a quoted text is truncated."""


def to_text(inspection: Inspection, title: str, width: int) -> str:
    """Format an inspection in lines of at most `width` columns; control characters of the corpus
    are escaped.
    """
    return "\n".join(_lines(inspection, title, max(MINIMUM_WIDTH, width))) + "\n"


def _lines(inspection: Inspection, title: str, width: int) -> Iterator[str]:
    yield click.style(truncate(one_line(title), width), bold=True)
    yield from _table(
        Table("", ("", "dialogues", "turns", "turns per dialogue"), _sizes(inspection)), width
    )
    yield ""
    yield from _overview(inspection.findings, width)
    for finding in inspection.findings.values():
        yield ""
        yield from _finding(finding, width)


def _sizes(inspection: Inspection) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (
            split,
            count(size["dialogues"]),
            count(size["turns"]),
            f"{size['turns'] / max(size['dialogues'], 1):.2f}",
        )
        for split, size in inspection.sizes.items()
    )


def _overview(findings: dict[str, Finding], width: int) -> Iterator[str]:
    """Yield one line per finding."""
    title_width = max(display_width(finding.title) for finding in findings.values()) + 3
    for finding in findings.values():
        mark, colour = MARKS[finding.severity]
        headline = truncate(one_line(finding.headline), width - title_width - 4)
        yield (
            f"  {click.style(mark, fg=colour, bold=True)} {finding.title:<{title_width}}{headline}"
        )


def _finding(finding: Finding, width: int) -> Iterator[str]:
    mark, colour = MARKS[finding.severity]
    rule = "─" * max(0, width - display_width(finding.title) - 5)
    yield (
        f"{click.style(f'{mark} {finding.title}', fg=colour, bold=True)} "
        f" {click.style(rule, dim=True)}"
    )
    yield from _wrapped(finding.summary, width, "  ")
    for detail in finding.details:
        yield ""
        yield from _detail(detail, width)
    if finding.advice:
        yield ""
        yield from (
            click.style(line, fg="cyan") for line in _wrapped(finding.advice, width, "  → ", "    ")
        )


def _detail(detail: Table | BarChart | Quotation, width: int) -> Iterator[str]:
    yield click.style(f"  {truncate(one_line(detail.caption), width - 2)}", dim=True)
    match detail:
        case Table():
            yield from _table(detail, width)
        case BarChart():
            yield from _bar_chart(detail, width)
        case Quotation():
            yield from _quotation(detail, width)


def _table(table: Table, width: int) -> Iterator[str]:
    lines = ([one_line(cell) for cell in row] for row in (table.header, *table.rows))
    rows = [[label, *(truncate(cell, LABEL_WIDTH) for cell in cells)] for label, *cells in lines]
    cell_widths = [
        max(display_width(row[column]) for row in rows) for column in range(1, len(table.header))
    ]
    rest = sum(cell_widths) + 2 * len(cell_widths)
    label_width = min(max(display_width(row[0]) for row in rows), max(12, width - rest - 4))
    for number, row in enumerate(rows):
        label = truncate(row[0], label_width)
        cells = (
            " " * (size + 2 - display_width(cell)) + cell
            for cell, size in zip(row[1:], cell_widths, strict=True)
        )
        line = f"    {label}{' ' * (label_width - display_width(label))}{''.join(cells)}"
        yield click.style(line, bold=True) if number == 0 else line


def _bar_chart(chart: BarChart, width: int) -> Iterator[str]:
    longest = max((size for _, size, _ in chart.bars), default=0) or 1
    labels = [truncate(one_line(label), LABEL_WIDTH) for label, _, _ in chart.bars]
    label_width = max(map(display_width, labels), default=0)
    note_width = max((display_width(note) for _, _, note in chart.bars), default=0)
    bar_width = max(10, min(BAR_WIDTH, width - label_width - note_width - 8))
    for label, (_, size, note) in zip(labels, chart.bars, strict=True):
        yield (
            f"    {label}{' ' * (label_width - display_width(label))} "
            f" {_bar(size / longest, bar_width)}  {note}"
        )


def _bar(fraction: float, width: int) -> str:
    """Draw a fraction of `width` columns, in eighths of a column; a fraction above 0 is always
    visible.
    """
    eighths = max(round(fraction * width * 8), 1 if fraction > 0 else 0)
    full, rest = divmod(eighths, 8)
    drawn = "█" * full + ("▏▎▍▌▋▊▉"[rest - 1] if rest else "")
    return click.style(drawn, fg="blue") + " " * (width - full - bool(rest))


def _quotation(quotation: Quotation, width: int) -> Iterator[str]:
    for label, text in quotation.lines:
        name = truncate(one_line(label), LABEL_WIDTH)
        indent = f"    {name}: " if name else "    "
        lines = list(_wrapped(text[: QUOTED_LINES * width], width, indent, "      "))
        yield from lines[:QUOTED_LINES]
        if len(lines) > QUOTED_LINES or len(text) > QUOTED_LINES * width:
            yield "      …"


def _wrapped(text: str, width: int, first_indent: str, indent: str | None = None) -> Iterator[str]:
    """Break a text into lines of at most `width` columns, between words where possible."""
    indent = first_indent if indent is None else indent
    line = first_indent
    is_blank = True
    for word in one_line(text).split(" "):
        if not is_blank and display_width(line) + 1 + display_width(word) > width:
            yield line
            line = indent
            is_blank = True
        line += word if is_blank else f" {word}"
        is_blank = False
        while display_width(line) > width:
            end = fitting_length(line, width)
            yield line[:end]
            line = indent + line[end:]
    yield line


# ------------------------------------------------------------------ page

WIDE_TABLE = 64
"""Columns above which a table takes the full width of the page."""

QUOTED_COLUMNS = 1000
"""Columns to which a quoted text is truncated."""

SEVERITIES = {
    "bad": ("✗", "needs fixing"),
    "look": ("!", "worth a look"),
    "good": ("✓", "no action needed"),
}


def write_html(inspection: Inspection, path: Path, *, title: str, command: str) -> None:
    """Write an inspection as a page; text of the corpus is escaped and adds neither elements nor
    addresses.
    """
    sizes = [
        {"split": split, **{key: count(number) for key, number in size.items()}}
        for split, size in inspection.sizes.items()
    ]
    findings = [_html_finding(name, finding) for name, finding in inspection.findings.items()]
    values = {
        "title": title,
        "command": command,
        "sizes": sizes,
        "severities": SEVERITIES,
        "findings": findings,
    }
    write_text(path, render_page("dialog.inspection", "inspection.html.j2", printable_json(values)))


def _html_finding(name: str, finding: Finding) -> dict[str, Any]:
    mark, meaning = SEVERITIES[finding.severity]
    return {
        "name": name,
        "title": finding.title,
        "severity": finding.severity,
        "mark": mark,
        "meaning": meaning,
        "headline": finding.headline,
        "summary": finding.summary,
        "advice": finding.advice,
        "details": [_html_detail(detail) for detail in finding.details],
    }


def _html_detail(detail: Table | BarChart | Quotation) -> dict[str, Any]:
    match detail:
        case Table(caption, header, rows):
            widths = [
                max(display_width(row[column]) for row in (header, *rows)) + 2
                for column in range(len(header))
            ]
            wide = sum(widths) > WIDE_TABLE
            return {
                "kind": "table",
                "caption": caption,
                "header": header,
                "rows": rows,
                "wide": wide,
            }
        case BarChart(caption, bars):
            longest = max((size for _, size, _ in bars), default=0) or 1
            drawn = [
                {"label": label, "width": f"{100 * size / longest:.4g}", "note": note}
                for label, size, note in bars
            ]
            return {"kind": "bars", "caption": caption, "bars": drawn}
        case Quotation(caption, lines):
            truncated = [(label, truncate(text, QUOTED_COLUMNS)) for label, text in lines]
            return {"kind": "quotation", "caption": caption, "lines": truncated}
