"""An inspection as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dialog.atomic import write_text
from dialog.escaping import printable_json
from dialog.inspection.findings import BarChart, Finding, Quotation, Table
from dialog.inspection.inspect import Inspection
from dialog.report.formats.numbers import count
from dialog.report.page import render_page
from dialog.report.terminal import display_width, truncate

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
    findings = [_finding(name, finding) for name, finding in inspection.findings.items()]
    values = {
        "title": title,
        "command": command,
        "sizes": sizes,
        "severities": SEVERITIES,
        "findings": findings,
    }
    write_text(path, render_page("dialog.inspection", "inspection.html.j2", printable_json(values)))


def _finding(name: str, finding: Finding) -> dict[str, Any]:
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
        "details": [_detail(detail) for detail in finding.details],
    }


def _detail(detail: Table | BarChart | Quotation) -> dict[str, Any]:
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
