"""An inspection as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dialog.atomic import write_text
from dialog.inspection.findings import Bars, Finding, Quoted, Table
from dialog.inspection.inspect import Inspection
from dialog.report.measures import count
from dialog.report.page import printable_json, render_page
from dialog.report.terminal import display_width, truncate

WIDE = 64
"""Letters of a row from which on a table takes the whole width of the page."""

QUOTED = 1000
"""Letters of a quoted text that are shown."""

STATES = {"bad": ("✗", "to mend"), "look": ("!", "worth a look"), "good": ("✓", "nothing to do")}


def write_html(inspection: Inspection, path: Path, *, title: str, command: str) -> None:
    """Write an inspection as a page; texts of the corpus are data, none can add an element or an address."""
    sizes = [
        {"split": split, **{key: count(number) for key, number in size.items()}}
        for split, size in inspection.sizes.items()
    ]
    findings = [_finding(name, found) for name, found in inspection.findings.items()]
    values = {"title": title, "command": command, "sizes": sizes, "states": STATES, "findings": findings}
    write_text(path, render_page("dialog.inspection", "inspection.html.j2", printable_json(values)))


def _finding(name: str, finding: Finding) -> dict[str, Any]:
    mark, meaning = STATES[finding.state]
    return {
        "name": name,
        "title": finding.title,
        "state": finding.state,
        "mark": mark,
        "meaning": meaning,
        "headline": finding.headline,
        "summary": finding.summary,
        "advice": finding.advice,
        "shown": [_shown(each) for each in finding.shown],
    }


def _shown(shown: Table | Bars | Quoted) -> dict[str, Any]:
    match shown:
        case Table(caption, head, rows):
            wide = sum(max(display_width(row[place]) for row in (head, *rows)) + 2 for place in range(len(head))) > WIDE
            return {"kind": "table", "caption": caption, "head": head, "rows": rows, "wide": wide}
        case Bars(caption, bars):
            longest = max((size for _, size, _ in bars), default=0) or 1
            drawn = [
                {"label": label, "width": f"{100 * size / longest:.4g}", "note": note} for label, size, note in bars
            ]
            return {"kind": "bars", "caption": caption, "bars": drawn}
        case Quoted(caption, lines):
            return {
                "kind": "quoted",
                "caption": caption,
                "lines": [(who, truncate(text, QUOTED)) for who, text in lines],
            }
