"""The tables of a comparison for LaTeX with the package booktabs."""

from __future__ import annotations

import re

from dialog.report.completion import complete
from dialog.report.sections.order import main_sections
from dialog.report.tables import ReportCell, ReportTable, Results, RowGroup, provenance
from dialog.report.terminal import one_line
from dialog.report.verdict import verdict_lines

HEAD = (
    "% Tables of a comparison; needs \\usepackage{booktabs,graphicx} and \\usepackage[T1]{fontenc}.\n"
    "% Bold: decided. {}"
)

MOST_ROWS = 40
"""Rows above which each group becomes a table of its own."""

_COMMANDS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "-": r"{-}",
    "*": r"{*}",
    "[": r"{[}",
    "]": r"{]}",
    "−": r"$-$",
    "±": r"$\pm$",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "→": r"$\rightarrow$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "†": r"$\dagger$",
    "✓": r"$\surd$",
    "✗": r"$\times$",
    "–": "--",
    "…": r"\ldots{}",
}
"""Characters that LaTeX would read as commands or ligatures, and symbols of the report."""


def to_latex(results: Results) -> str:
    """Return every table of the report; text of results.json is escaped and cannot be a command.

    Letters that pdflatex has no glyph for, as in Chinese names, are written as code points.
    """
    results = complete(results)
    seeds = ", ".join(f"{model['name']}: {len(model['runs'])}" for model in results["models"])
    parts = [HEAD.replace("{}", _comment(" ".join(verdict_lines(results))))]
    tables = [
        (section.title, part)
        for section in main_sections(results)
        for table in section.tables
        if not table.folded
        for part in _pages(table)
    ]
    for number, (title, table) in enumerate(tables, start=1):
        caption = f"{title}. {table.caption} Seeds: {seeds}. {provenance(results, table.metrics)}."
        parts.append(_table(table, caption, label=f"tab:comparison-{number}"))
    return "\n\n".join(parts) + "\n"


def _pages(table: ReportTable) -> list[ReportTable]:
    """Split a table that is longer than a page into its groups."""
    return [table._replace(groups=(group,)) for group in table.groups] if len(table.rows) > MOST_ROWS else [table]


def escape(text: str) -> str:
    """Escape text for LaTeX; it stays one line of text in any compiler."""
    return "".join(_COMMANDS.get(char) or _letter(char) for char in one_line(text))


def _letter(char: str) -> str:
    return char if char.isascii() or ("À" <= char <= "ÿ") else f"{{[}}U+{ord(char):04X}{{]}}"


def _comment(text: str) -> str:
    return "".join(char if " " <= char <= "~" else "?" for char in text)


def _table(table: ReportTable, caption: str, *, label: str) -> str:
    width = len(table.head)
    lines = [
        r"\begin{table}[tbp]",
        r"\centering",
        rf"\caption{{{escape(caption)}}}",
        rf"\label{{{label}}}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{l{'r' * (width - 1)}}}",
        r"\toprule",
        _row(map(_head, table.head)),
    ]
    for group in table.groups:
        lines += [r"\midrule", *_group(group, width)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}}", r"\end{table}"])


def _head(name: str) -> str:
    """Return a heading, in one line per word if it is long."""
    words = re.split(r"(?<=/)| ", name) if len(name) > 9 else [name]
    lines = r" \\ ".join(map(escape, words))
    return rf"\shortstack[r]{{{lines}}}" if len(words) > 1 else lines


def _group(group: RowGroup, width: int) -> list[str]:
    title = [rf"\multicolumn{{{width}}}{{l}}{{\emph{{{escape(group.title)}}}}} \\"] if group.title else []
    return title + [_row(map(_cell, row)) for row in group.rows]


def _cell(cell: ReportCell) -> str:
    text = escape(cell.text)
    return rf"\textbf{{{text}}}" if cell.mark == "decided" else text


def _row(cells: map[str]) -> str:
    return " & ".join(cells) + r" \\"
