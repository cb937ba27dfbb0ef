"""The tables of a comparison for LaTeX with the package booktabs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dialog.escaping import escape_latex, one_line
from dialog.report.formats.results import Results
from dialog.report.sections.order import main_sections
from dialog.report.short_names import displayed
from dialog.report.tables import (
    NONE,
    ReportSection,
    ReportTable,
    Row,
    RowGroup,
    provenance,
    shortened,
)
from dialog.report.terminal import break_heading, column_widths
from dialog.report.verdict import verdict_lines

HEAD = "% A comparison; needs \\usepackage[T1]{fontenc} and \\usepackage{booktabs,graphicx}."

MOST_ROWS = 40
"""Rows above which each group becomes a table of its own, and a group several tables."""


def to_latex(results: Results) -> str:
    """Return the verdict as a paragraph, and the tables of the report; text of results.json cannot
    be a command.

    Of the tables that report.html folds, those of the tests of all pairs are included, in their
    first rows if long.

    Letters that pdflatex has no glyph for, as in Chinese names, are written as code points.
    """
    results = displayed(results)
    paragraphs = [escape_latex(f"Warning: {warning}") for warning in results.warnings]
    paragraphs += [escape_latex(line) for line in verdict_lines(results)]
    tables = [part for section in main_sections(results) for part in tables_of(section)]
    floats = [
        latex_table(
            table._replace(caption=f"{table.caption} {_provenance(results, table)}"),
            label=f"tab:comparison-{number}",
        )
        for number, table in enumerate(tables, start=1)
    ]
    return "\n\n".join([HEAD, *paragraphs, *floats]) + "\n"


def tables_of(section: ReportSection) -> Iterator[ReportTable]:
    """Yield the parts of the tables of a section, with its title and notes in their captions."""
    for table in section.tables:
        if table.folded and not table.metrics:
            continue
        most = MOST_ROWS * len(table.groups)
        for part in pages_of(shortened(table, most) if table.folded else table):
            caption = " ".join((f"{section.title}.", *section.notes, part.caption))
            yield part._replace(caption=caption)


def _provenance(results: Results, table: ReportTable) -> str:
    return f"{_seeds(results)} {provenance(results, table.metrics)}."


def pages_of(table: ReportTable) -> Iterator[ReportTable]:
    """Yield tables that fit a page: reference systems apart from contenders, and the groups of a
    long table.
    """
    columns = range(len(table.head))
    first = len(table.head) - table.references
    halves = [table.select(columns[:first])]
    if table.references:
        references = table.select([0, *columns[first:]])._replace(caption=table.reference_note)
        groups = (
            group._replace(rows=tuple(filter(_has_value, group.rows)))
            for group in references.groups
        )
        halves += [references._replace(groups=tuple(group for group in groups if group.rows))]
    for half in halves:
        long = len(half.rows) > MOST_ROWS
        yield from (
            (half._replace(groups=(group,)) for group in _short_groups(half)) if long else [half]
        )


def _short_groups(table: ReportTable) -> Iterator[RowGroup]:
    """Yield the groups of a table, those with more than `MOST_ROWS` rows in several parts."""
    for group in table.groups:
        for start in range(0, len(group.rows), MOST_ROWS):
            yield group._replace(rows=group.rows[start : start + MOST_ROWS])


def _has_value(row: Row) -> bool:
    return any(cell.text != NONE for cell in row[1:])


def _seeds(results: Results) -> str:
    """Return the numbers of seeds: "3 seeds each.", "Seeds: 3 of lstm, 5 of transformer."."""
    trained = {model.name: len(model.runs) for model in results.models if model.trained}
    if len(set(trained.values())) == 1 and len(trained) == len(results.models):
        (number,) = set(trained.values())
        return f"{number} seed{'s' if number > 1 else ''} each."
    return (
        f"Seeds: {', '.join(f'{number} of {name}' for name, number in trained.items())}."
        if trained
        else ""
    )


def latex_table(table: ReportTable, *, label: str) -> str:
    """Return a table as a float with a caption and a label."""
    width = len(table.head)
    lines = [
        r"\begin{table}[tbp]",
        r"\centering\small",
        r"\setlength{\tabcolsep}{4pt}\setlength{\belowcaptionskip}{6pt}",
        rf"\caption{{{escape_latex(table.caption)}}}",
        rf"\label{{{label}}}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{l{'r' * (width - 1)}}}",
        r"\toprule",
        _row(map(_heading, table.head, column_widths(table))),
    ]
    for title, rows in table.texts(escape_latex, lambda text: rf"\textbf{{{text}}}"):
        lines.append(r"\midrule")
        if title:
            lines.append(rf"\multicolumn{{{width}}}{{l}}{{\emph{{{title}}}}} \\")
        lines += map(_row, rows)
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}}", r"\end{table}"])


def _heading(name: str, width: int) -> str:
    """Return a heading in lines that are as wide as the column if possible."""
    lines = [escape_latex(line) for line in break_heading(one_line(name), width)]
    stacked = r" \\ ".join(lines)
    return rf"\shortstack[r]{{{stacked}}}" if len(lines) > 1 else stacked


def _row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"
