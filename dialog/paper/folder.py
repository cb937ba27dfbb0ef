"""Folder of a paper: text, tables, figures, bibliography and checklist of a finished comparison.

paper.tex            includes all parts, and compiles alone
verdict.tex          the verdict, as page, terminal and Markdown have it
methods.tex          methods, with citations from references.bib
tables/*.tex         tables of the report, with booktabs
figures/*.pdf        charts; figures/*.csv the data behind them
hyperparameters.tex  settings of the recipes, if there are any
checklist.tex        responsible NLP checklist of the ACL
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from dialog.atomic import write_text
from dialog.comparison.grid.folder import Grid, read_grid
from dialog.comparison.statistics.verdict import listed
from dialog.escaping import escape_latex, one_line
from dialog.paper.checklist import checklist
from dialog.paper.citations import bibliography
from dialog.paper.data import figure_data
from dialog.paper.hyperparameters import hyperparameters
from dialog.paper.methods import Recipes, methods
from dialog.paper.pdf import check_drawing, write_pdf
from dialog.paths import check_new, created_folder
from dialog.report.files import FIGURES, charts_of
from dialog.report.formats.results import Results, read_results
from dialog.report.latex import latex_table, tables_of
from dialog.report.sections.order import main_sections
from dialog.report.short_names import ShownResults, displayed
from dialog.report.tables import ReportSection, anchor, title_of
from dialog.report.verdict import verdict_lines
from dialog.version import __version__

TABLES = "tables"
KINDS = {"tab": "Table", "fig": "Figure"}
LABEL = re.compile(r"\\label\{([^}]*)\}")
RESULT_SECTIONS = (
    "Differences",
    "Likelihood",
    "Generated responses",
    "Judge",
    "Ratings of people",
)
"""Sections in the part on results; the others are in the appendix."""
FITTED = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{\includegraphics{%s}}"
"""A large chart, in its own size if the line is wide enough."""
FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""First characters of a formula."""
MOST_CHARTS = 4
"""Charts of a figure, so that it fits a page."""
SMALL = r"\includegraphics[width=.48\linewidth]{%s}"
DOCUMENT = r"""%% Compile with pdflatex, bibtex, and pdflatex twice; or with tectonic or latexmk.
\documentclass[11pt]{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
\usepackage[margin=2.5cm]{geometry}
\usepackage{booktabs,graphicx,natbib}
\title{%s}
\author{}
\date{}
\begin{document}
\maketitle

\section{Methods}
\input{methods}

\section{Results}
\input{verdict}

%s

\bibliographystyle{plainnat}
\bibliography{references}

\clearpage
\appendix
\section{Further results}
%s

\clearpage
%s
\end{document}
"""


def write_paper(comparison: Path, folder: Path) -> None:
    """Write the folder of a paper from results.json and the recipes of a comparison; it appears
    complete or not at all.

    Raises:
        UserError: the comparison has no results, the folder exists, or matplotlib is missing.
    """
    check_new(folder, "--paper")
    check_drawing()
    results = read_results(comparison)
    recipes = recipes_of(read_grid(comparison), results)
    shown = displayed(results)
    with created_folder(folder, "--paper") as new:
        for part in (TABLES, FIGURES):
            (new / part).mkdir()
        for name, text in texts_of(shown, recipes).items():
            write_text(new / name, text.rstrip("\n") + "\n")
        for section in main_sections(shown):
            write_charts(section, shown, new / FIGURES)


def texts_of(results: ShownResults, recipes: Recipes) -> dict[str, str]:
    """Return the texts of the folder by the path of their file.

    Args:
        results: results.json with the names that the paper shows.
        recipes: Recipes by these names.
    """
    sections = main_sections(results)
    floats = {
        **{f"{TABLES}/{anchor(one.title)}": tables(one) for one in sections},
        **{f"{FIGURES}/{anchor(one.title)}": figures(one) for one in sections},
    }
    texts = {
        "paper.tex": document(title_of(results), sections, floats, with_recipes=bool(recipes)),
        "verdict.tex": verdict(results),
        "methods.tex": methods(results, recipes),
        "checklist.tex": checklist(results, recipes),
        **({"hyperparameters.tex": hyperparameters(recipes)} if recipes else {}),
        **{f"{name}.tex": text for name, text in floats.items() if text},
    }
    texts["references.bib"] = bibliography(texts.values(), __version__, year_of(results))
    return texts


def recipes_of(grid: Grid, results: Results) -> Recipes:
    """Return the recipes of the contenders, with the values that trials have chosen, by the names
    that the paper shows.
    """
    names = results.names
    shown = dict(zip(names, displayed(results).names, strict=True))
    chosen = {trial.model: trial.values for trial in results.tuning if trial.chosen}
    recipes: dict[str, Mapping[str, Any]] = {}
    for contender in grid.contenders:
        if contender.name in shown and contender.recipe:
            tuned = contender.trials.get(chosen.get(contender.name, ""), contender)
            recipes[shown[contender.name]] = tuned.recipe
    return recipes


def year_of(results: Results) -> int:
    """Return the year of the last look at the results, else the present one."""
    dates = [datetime.fromisoformat(look.date) for look in results.looks]
    return max(dates, default=datetime.now(UTC)).year


def document(
    title: str, sections: Sequence[ReportSection], floats: Mapping[str, str], *, with_recipes: bool
) -> str:
    """Return the text that includes all others.

    Args:
        title: Title of the comparison.
        sections: Sections of the report.
        floats: Tables and figures by the name of their file.
        with_recipes: Whether there are hyperparameters.
    """
    body = [one for one in sections if one.title in RESULT_SECTIONS]
    rest = [one for one in sections if one.title not in RESULT_SECTIONS]
    ends = ["\\section{Responsible NLP checklist}\n\\input{checklist}"]
    if with_recipes:
        ends.insert(0, "\\section{Hyperparameters}\n\\input{hyperparameters}")
    texts = (_references(body, floats), _references(rest, floats), "\n\n\\clearpage\n".join(ends))
    return DOCUMENT % (escape_latex(title), *texts)


def _references(sections: Sequence[ReportSection], floats: Mapping[str, str]) -> str:
    """Return a sentence that names the floats of sections, then the floats."""
    names = []
    included = []
    for section in sections:
        texts = (f"{place}/{anchor(section.title)}" for place in (TABLES, FIGURES))
        filled = [name for name in texts if floats[name]]
        labels = [label for name in filled for label in LABEL.findall(floats[name])]
        places = listed([f"{KINDS[label[:3]]}~\\ref{{{label}}}" for label in labels])
        names.append(f"{escape_latex(section.title)}: {places}.")
        included += [f"\\input{{{name}}}" for name in filled]
    return "\n".join([*names, "", *included])


def verdict(results: Results) -> str:
    """Return the verdict, a paragraph for each line, and warnings as comments."""
    warnings = [f"% Warning: {escape_latex(str(text))}" for text in results.warnings]
    return "\n\n".join([*warnings, *map(escape_latex, verdict_lines(results))])


def tables(section: ReportSection) -> str:
    """Return the tables of a section."""
    label = f"tab:{anchor(section.title)}"
    return "\n\n".join(
        latex_table(table, label=f"{label}-{number}")
        for number, table in enumerate(tables_of(section), start=1)
    )


def figures(section: ReportSection) -> str:
    """Return the figures of a section, which include its charts."""
    floats: list[str] = []
    name = anchor(section.title)
    numbers = count(1)
    for figure in section.figures:
        files = [f"{FIGURES}/{name}-{next(numbers)}" for _ in figure.drawings]
        notes = () if section.tables else section.notes
        caption = " ".join((f"{section.title}.", *notes, figure.caption))
        for start in range(0, len(files), MOST_CHARTS):
            charts = [
                (FITTED if len(files) == 1 else SMALL) % file
                for file in files[start:][:MOST_CHARTS]
            ]
            lines = [
                r"\begin{figure}[tbp]",
                r"\centering",
                *charts,
                rf"\caption{{{escape_latex(caption)}}}",
                rf"\label{{fig:{name}-{len(floats) + 1}}}",
                r"\end{figure}",
            ]
            floats.append("\n".join(lines))
    return "\n\n".join(floats)


def write_charts(section: ReportSection, results: Results, folder: Path) -> None:
    """Write the charts of a section as PDF, and the data behind them as CSV."""
    charts = charts_of(section, results.names)
    for name, drawing in charts.items():
        write_pdf(folder / f"{name}.pdf", drawing)
    for name, rows in figure_data(section.title, results).items() if charts else ():
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([_cell(value) for value in row] for row in rows)


def _cell(value: object) -> object:
    """Return a value of a CSV file; a text is no formula of a spreadsheet and has no control
    characters.
    """
    if not isinstance(value, str):
        return value
    return f"'{one_line(value)}" if value[:1] in FORMULAS else one_line(value)
