"""A comparison as GitHub Markdown, without charts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dialog.escaping import escape_markdown, printable
from dialog.report.formats.metrics import METRIC_DISPLAYS
from dialog.report.formats.numbers import duration
from dialog.report.formats.results import Results, ShownExample
from dialog.report.sections.order import appendix, main_sections
from dialog.report.sections.scores import metric_names
from dialog.report.short_names import displayed
from dialog.report.tables import (
    DIFFERING,
    DIFFERING_NOTE,
    RANDOM,
    ReportSection,
    ReportTable,
    provenance,
    reference_bits,
    shortened,
    title_of,
)
from dialog.report.verdict import verdict_lines

MOST_ROWS = 60
"""Rows of a table that report.html folds; of a longer one the first rows."""


def to_markdown(results: Results) -> str:
    """Return verdict, tables and examples as Markdown; texts of results.json cannot become links or
    tags.
    """
    results = displayed(results)
    displays = [METRIC_DISPLAYS[name] for name in metric_names(results) if name in METRIC_DISPLAYS]
    environment = [
        [escape_markdown(key), escape_markdown(str(value))]
        for key, value in results.environment.items()
    ]
    parts = [
        f"# {escape_markdown(title_of(results))}",
        *(f"> ⚠ {escape_markdown(warning)}" for warning in results.warnings),
        *map(escape_markdown, verdict_lines(results)),
        _code_block(results.command),
        f"Total time: {duration(results.seconds)}.",
        *(_section(results, section) for section in main_sections(results)),
        *_samples(results, DIFFERING, DIFFERING_NOTE, results.disagreements),
        *_samples(results, RANDOM, "", results.samples),
        *(_section(results, section) for section in appendix(results)),
        "## Metrics",
        "\n".join(f"- {metric.label}: {escape_markdown(metric.definition)}" for metric in displays),
        *(
            ("## Environment", _lines([["", ""], ["---", "---"], *environment]))
            if environment
            else ()
        ),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def text_table(head: list[str], rows: list[list[str]]) -> str:
    """Return a table of plain text."""
    return _lines(
        [
            [*map(escape_markdown, head)],
            ["---"] * len(head),
            *([*map(escape_markdown, row)] for row in rows),
        ]
    )


def _section(results: Results, section: ReportSection) -> str:
    if not section.tables and not section.notes:
        return ""
    shown = (shortened(table, MOST_ROWS) if table.folded else table for table in section.tables)
    tables = (
        f"{_table(table)}\n\n"
        + escape_markdown(f"{table.caption} {table.reference_note}".rstrip())
        + "\n\n"
        + escape_markdown(provenance(results, table.metrics))
        for table in shown
    )
    notes = "\n".join(f"- {escape_markdown(note)}" for note in section.notes)
    return "\n\n".join(
        part for part in (f"## {escape_markdown(section.title)}", notes, *tables) if part
    )


def _table(table: ReportTable) -> str:
    width = len(table.head)
    rows = [[*map(escape_markdown, table.head)], ["---", *["---:"] * (width - 1)]]
    for title, cells in table.texts(escape_markdown, "**{}**".format):
        rows += [[f"_{title}_", *[""] * (width - 1)]] if title else []
        rows += cells
    return _lines(rows)


def _samples(
    results: Results, title: str, note: str, samples: Sequence[ShownExample]
) -> tuple[str, ...]:
    head = ["Context", "Reference", *results.names]
    rows = [
        ["\n".join(sample.context), sample.reference, *_responses(sample)] for sample in samples
    ]
    return (f"## {title}", note, text_table(head, rows)) if samples else ()


def _responses(sample: ShownExample) -> list[str]:
    """Return the responses of an example, each with the bits per byte of the reference if they are
    known.
    """
    bits = reference_bits(sample) or [""] * len(sample.responses)
    return [
        f"{response}\n{text}".rstrip()
        for response, text in zip(sample.responses, bits, strict=True)
    ]


def _lines(rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _code_block(text: str) -> str:
    """Fence text with more backticks than it has in a row."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{printable(text)}\n{fence}"
