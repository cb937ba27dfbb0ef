"""The report files of a comparison folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dialog.atomic import write_text
from dialog.report.drawing.axes import model_colour, with_legend
from dialog.report.drawing.canvas import write_svg
from dialog.report.formats.results import Results
from dialog.report.html import write_html
from dialog.report.latex import to_latex
from dialog.report.markdown import to_markdown
from dialog.report.sections.order import main_sections
from dialog.report.short_names import displayed
from dialog.report.tables import ReportSection, anchor

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
    for section in main_sections(shown):
        for name, drawing in charts_of(section, shown.names).items():
            folder.mkdir(exist_ok=True)
            write_svg(folder / f"{name}.svg", drawing)


def charts_of(section: ReportSection, names: Sequence[str]) -> dict[str, str]:
    """Return the charts of a section as SVG, with a legend of the contenders that they draw where
    they need one, by the name of their file: <section>-<number>.
    """
    drawings = [
        with_legend(drawing, _drawn(drawing, names)) if figure.legend else drawing
        for figure in section.figures
        for drawing in figure.drawings
    ]
    return {
        f"{anchor(section.title)}-{number}": drawing
        for number, drawing in enumerate(drawings, start=1)
    }


def _drawn(drawing: str, names: Sequence[str]) -> dict[int, str]:
    """Return the contenders whose colour a drawing has, by number; a system without likelihood is
    in no chart of it.
    """
    return {place: name for place, name in enumerate(names) if model_colour(place)[0] in drawing}
