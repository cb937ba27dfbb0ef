"""The verdict of a comparison, with warnings, and its table for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dialog.report.formats.metrics import LOSSY, LOSSY_NOTE, METRIC_DISPLAYS
from dialog.report.formats.results import Results
from dialog.report.sections.cost import cost
from dialog.report.sections.differences import LESS_NEEDED, ranked_names
from dialog.report.sections.judges import judges
from dialog.report.sections.parity import broken_settings, is_unknown
from dialog.report.sections.ratings import ratings
from dialog.report.sections.scores import metric_names, summary
from dialog.report.short_names import displayed
from dialog.report.tables import (
    SPREAD_NOTE,
    ReportSection,
    ReportTable,
    RowGroup,
    table_of_groups,
    text_row,
)
from dialog.report.terminal import fitted, wrapped

WIDTH = 80
"""Columns of a terminal of unknown width."""
SHOWN = (
    *("bits_per_byte", "perplexity_token", "hits_1_of_20", "answer_accuracy", "alignment_accuracy"),
    *("f1", "sacrebleu", "distinct_2", "length_mean"),
)
"""Metrics of the table for the terminal, beside those that users add; the report has all."""
SHOWN_COSTS = ("Parameters", "Training time", "Time per response")
"""Rows of the cost table that the terminal shows."""
MOST_COLUMNS = 3
"""Contenders that have a column each; more have a row each, the best first."""
LESS_SHOWN = (
    "Time per response",
    "Perplexity per token ↓",
    "Words per response",
    "sacreBLEU ↑",
    "Distinct-2",
    "Hits@1 of 20 ↑",
    "Alignment accuracy ↑",
    "Training time",
    "F1 ↑",
)
"""Columns that a narrow terminal leaves out, in this order, if contenders have rows."""


def verdict_lines(results: Results) -> list[str]:
    """Return the lines of the verdict: a paragraph, then notes."""
    return [line for line in results.verdict.splitlines() if line]


def terminal_table(results: Results, width: int = WIDTH) -> str:
    """Return warnings, verdict and the main figures in lines of at most `width` columns, `*` at
    decided differences.
    """
    results = displayed(results)
    texts = [*(f"warning: {warning}" for warning in results.warnings), *verdict_lines(results)]
    tables = _main_figures(results)
    blocks = ["\n".join(wrapped(text, width) for text in texts)]
    less_needed = LESS_NEEDED if len(results.models) <= MOST_COLUMNS else LESS_SHOWN
    blocks += [fitted(table, width, less_needed) for table in tables]
    blocks += ["\n".join(wrapped(note, width) for note in _notes(results, tables))]
    blocks += [
        fitted(table, width) for section in preference_sections(results) for table in section.tables
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


def preference_tables(results: Results, width: int = WIDTH) -> str:
    """Return the preferences of people and of judges in lines of at most `width` columns."""
    sections = preference_sections(displayed(results))
    notes = [wrapped(note, width) for section in sections for note in section.notes]
    tables = [
        f"{fitted(table, width)}\n{wrapped(table.caption, width)}"
        for section in sections
        for table in section.tables
    ]
    return "\n\n".join([*notes, *tables]) + "\n"


def preference_sections(results: Results) -> list[ReportSection]:
    """Return the sections on preferences of people and of judges."""
    return [ratings(results), judges(results)]


def _main_figures(results: Results) -> tuple[ReportTable, ...]:
    """Return one table of the `SHOWN` metrics on all dialogues and of `SHOWN_COSTS`; nothing
    without either.
    """
    users = {name for name in metric_names(results) if name not in METRIC_DISPLAYS}
    metrics = summary(results, {*SHOWN, *users})
    head = metrics[0].head if metrics else ("", *results.names)
    costs = [row for table in cost(results).tables for row in table.rows]
    shown = [row for row in costs if row[0].text in SHOWN_COSTS]
    texts = ([cell.text.partition(" ± ")[0] for cell in row] for row in shown)
    padded = tuple(text_row(*row, *[""] * (len(head) - len(row))) for row in texts)
    tables = table_of_groups(
        head, (*(group for table in metrics for group in table.groups), RowGroup("", padded))
    )
    if len(results.models) <= MOST_COLUMNS:
        return tables
    names = ranked_names(results, metric_names(results)[0]) if metrics else []
    names += [name for name in results.names if name not in names]
    return tuple(table.transposed(names) for table in tables)


def _notes(results: Results, tables: Sequence[ReportTable]) -> Iterator[str]:
    """Yield the meaning of signs in the tables, settings that must be equal but differ, and what
    the report adds.
    """
    names = results.names
    if len(names) == 2 and results.differences:
        yield f"Differences and intervals: {names[0]} − {names[1]}."
    rows = [row for table in tables for row in table.rows]
    cells = [cell for row in rows for cell in row[1:]]
    if results.differences:
        yield "*: decided, that is, significant after the correction for all tests of the report."
    if any("±" in cell.text for cell in cells):
        yield SPREAD_NOTE
    if any(LOSSY in cell.text for cell in cells):
        yield LOSSY_NOTE.strip()
    yield from _contract_notes(results)
    if tables:
        number = len(metric_names(results))
        yield f"The report has all {number} metrics, tests and examples."


def _contract_notes(results: Results) -> Iterator[str]:
    """Yield a line for each setting that must be equal but differs, and one for those that differ
    as one is unknown.
    """
    unknown = []
    for what, *values, _ in broken_settings(results):
        texts = [value.text for value in values]
        if is_unknown(texts):
            unknown.append(what.text)
        else:
            yield f"must be equal but differs: {what.text}: {' / '.join(texts)}"
    if unknown:
        yield f"must be equal but not known for all contenders: {', '.join(unknown)}"
