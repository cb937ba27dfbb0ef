"""The report files of a comparison folder."""

from __future__ import annotations

from pathlib import Path

from dialog.atomic import write_text
from dialog.report.drawing.axes import with_legend
from dialog.report.drawing.canvas import write_svg
from dialog.report.formats.results import Results
from dialog.report.html import write_html
from dialog.report.latex import to_latex
from dialog.report.markdown import to_markdown
from dialog.report.sections.order import main_sections
from dialog.report.short_names import displayed
from dialog.report.tables import anchor

FIGURES = "figures"
"""Folder of the charts of report.html."""


def write_reports(results: Results, folder: Path) -> None:
    """Write report.html, report.md and report.tex of results.json, and the charts as
    figures/*.svg.
    """
    write_text(folder / "report.md", to_markdown(results))
    write_text(folder / "report.tex", to_latex(results))
    write_html(results, folder / "report.html")
    write_figures(results, folder / FIGURES)


def write_figures(results: Results, folder: Path) -> None:
    """Write each chart of the report with a legend as <section>-<number>.svg; remove those of an
    earlier report.
    """
    for file in folder.glob("*.svg"):
        file.unlink()
    shown = displayed(results)
    names = dict(enumerate(shown.names))
    for section in main_sections(shown):
        drawings = [
            with_legend(drawing, names) if figure.legend else drawing
            for figure in section.figures
            for drawing in figure.drawings
        ]
        for number, drawing in enumerate(drawings, start=1):
            folder.mkdir(exist_ok=True)
            write_svg(folder / f"{anchor(section.title)}-{number}.svg", drawing)
