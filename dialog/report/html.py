"""A comparison as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dialog.atomic import write_text
from dialog.escaping import printable_json
from dialog.report.drawing.attention.packing import maps_of, pack
from dialog.report.drawing.attention.page import explorer_json, explorer_style, stills
from dialog.report.drawing.axes import SERIES
from dialog.report.formats.metrics import METRIC_DISPLAYS
from dialog.report.formats.numbers import duration, hardware
from dialog.report.formats.results import Results, ShownExample
from dialog.report.page import joined, render_page
from dialog.report.sections.order import appendix, main_sections
from dialog.report.sections.ranking import TITLE as PICTURES
from dialog.report.sections.scores import metric_names
from dialog.report.short_names import ShownResults, displayed
from dialog.report.tables import (
    DIFFERING,
    DIFFERING_NOTE,
    MOST_NAMES,
    RANDOM,
    SPREAD_NOTE,
    Figure,
    ReportTable,
    anchor,
    has_several_seeds,
    metric_label,
    provenance,
    reference_bits,
    title_of,
)
from dialog.report.terminal import display_width, divided, heading_pieces, truncate
from dialog.report.verdict import verdict_lines

MOST_WEIGHTS = 200_000
STILLS = 2
STILL_ROWS = 30
"""Weights of all attention maps together, 0.5 MB of a page below 2 MB; models and rows of maps
without scripts.
"""
MOST_TURNS = 10
TURN_COLUMNS = 400
RESPONSE_COLUMNS = 1000
"""Last turns of a context that are shown, and columns to which a turn and a response are truncated.
"""

PRINTED = 152
LONG_CELL = 40
SWATCH = 3
"""Characters on a line of a table on A4, before a cell is broken into lines, and in the place of a
swatch.
"""


def write_html(results: Results, path: Path) -> None:
    """Write a report of results.json; its texts are escaped and cannot add elements or
    addresses.
    """
    values = template_values(printable_json(displayed(results)))
    write_text(
        path,
        render_page(
            "dialog.report",
            "report.html.j2",
            values,
            script=joined("dialog.report", ["drawing/attention/explorer.js"]),
        ),
    )


def template_values(results: ShownResults) -> dict[str, Any]:
    """Return the variables of the template."""
    sections = main_sections(results)
    pictures = [section for section in sections if section.title == PICTURES]
    sections = [section for section in sections if section.title != PICTURES]
    attention = _attention(results)
    examples = [
        (DIFFERING, DIFFERING_NOTE, [*map(_example, results.disagreements)]),
        (RANDOM, "", [*map(_example, results.samples)]),
    ]
    metrics = {
        name: METRIC_DISPLAYS[name] for name in metric_names(results) if name in METRIC_DISPLAYS
    }
    return {
        "results": results,
        "title": title_of(results),
        "names": results.names,
        "most_names": MOST_NAMES,
        "series": SERIES,
        "verdict": verdict_lines(results),
        "facts": _facts(results),
        "titles": [
            *(section.title for section in (*pictures, *sections)),
            *(title for title, _, samples in examples if samples),
            *(["Attention"] if attention else []),
            *(section.title for section in appendix(results)),
            "Metrics",
            *(["Environment"] if results.environment else []),
        ],
        "pictures": pictures,
        "sections": sections,
        "appendix": appendix(results),
        "examples": examples,
        "attention": attention,
        "explorer_style": Markup(explorer_style()),
        "metrics": metrics.values(),
        "anchor": anchor,
        "definitions": {metric_label(name): metric.definition for name, metric in metrics.items()},
        "provenance": lambda table: provenance(results, table.metrics),
        "drawings": _drawings,
        "pieces": heading_pieces,
        "printed_parts": printed_parts,
    }


def _facts(results: Results) -> dict[str, str]:
    seeds = {run.seed for run in results.runs if run.seed is not None}
    size = f"{results.examples:,} responses in {results.dialogues:,} dialogues"
    spread = [SPREAD_NOTE] if has_several_seeds(results) else []
    facts = {
        "Evaluated on": f"{results.split}, {size}",
        "Evaluation": results.fingerprint[:12],
        "Seeds": ", ".join(map(str, sorted(seeds))),
        "Hardware": hardware(results.environment),
        "Total time": duration(results.seconds),
        "Notation": " ".join(
            [
                *spread,
                "Brackets and bars: 95 % intervals, unless a caption says otherwise.",
                "Bold: decided.",
            ]
        ),
    }
    return {name: text for name, text in facts.items() if text}


def _example(sample: ShownExample) -> dict[str, Any]:
    """Truncate the texts of an example; a page of the longest texts stays below 2 MB."""
    omitted = len(sample.context) - MOST_TURNS
    turns = [_truncate(turn, TURN_COLUMNS) for turn in sample.context[-MOST_TURNS:]]
    first = [f"… ({omitted} earlier turns)"] if omitted > 0 else []
    return {
        "context": first + turns,
        "responses": [_truncate(text, RESPONSE_COLUMNS) for text in sample.responses],
        "id": _truncate(sample.id, RESPONSE_COLUMNS),
        "reference": _truncate(sample.reference, RESPONSE_COLUMNS),
        "reference_bits": reference_bits(sample),
    }


def _truncate(text: str, limit: int) -> str:
    """Truncate a text to columns; characters without width count as well, at a quarter of a
    column.
    """
    return truncate(text[: 4 * limit], limit)


def _attention(results: Results) -> dict[str, Any] | None:
    """Return the data, tables and notes of the attention section; None without maps."""
    examples = [
        (example.id, [(_reading_label(entry), entry) for entry in example.models])
        for example in results.attention.examples
    ]
    if not examples:
        return None
    sizes = [
        sum(one.weights.size for one in maps_of(maps))
        for _, readings in examples
        for _, maps in readings
    ]
    limits = iter(shares(sizes, MOST_WEIGHTS))
    packed = [
        {
            "id": name,
            "readings": [pack(maps, label, most_cells=next(limits)) for label, maps in readings],
        }
        for name, readings in examples
    ]
    models = [entry["model"] for _, entry in examples[0][1]]
    first = [
        reading
        for place, reading in enumerate(examples[0][1])
        if models.index(models[place]) == place
    ]
    return {
        "data": explorer_json(packed),
        "stills": stills(first[:STILLS], rows=STILL_ROWS),
        "notes": [],
    }


def shares(sizes: Sequence[int], total: int) -> list[int]:
    """Divide a total among parts of these sizes: equally, except that what a part does not need
    goes to larger ones.
    """
    granted = [0] * len(sizes)
    for done, place in enumerate(sorted(range(len(sizes)), key=lambda place: sizes[place])):
        granted[place] = min(sizes[place], (total - sum(granted)) // (len(sizes) - done))
    return granted


def _reading_label(entry: Mapping[str, Any]) -> str:
    return entry["model"] if entry["seed"] is None else f"{entry['model']}, seed {entry['seed']}"


def printed_parts(table: ReportTable) -> list[list[int]]:
    """Return the columns of each part into which a table that is wider than a printed page is
    divided; else nothing.
    """
    cells = zip(
        *([min(LONG_CELL, display_width(cell.text)) for cell in row] for row in table.rows),
        strict=True,
    )
    headings = (
        [display_width(piece.rstrip()) for piece in heading_pieces(name)] for name in table.head
    )
    widths = [
        max(*column, *pieces) + SWATCH * (0 < place <= table.contenders)
        for place, (column, pieces) in enumerate(zip(cells, headings, strict=True))
    ]
    parts = divided(widths, PRINTED)
    return parts if len(parts) > 1 else []


def _drawings(figure: Figure) -> Sequence[Markup]:
    """Mark SVG as safe: `Canvas` has escaped its texts."""
    return [Markup(svg) for svg in figure.drawings]
