"""The report files of a comparison folder."""

from __future__ import annotations

from pathlib import Path

from dialog.atomic import write_text
from dialog.report.html import write_html
from dialog.report.latex import to_latex
from dialog.report.markdown import to_markdown
from dialog.report.tables import Results


def write_reports(results: Results, folder: Path) -> None:
    """Write report.html, report.md and report.tex of results.json."""
    write_text(folder / "report.md", to_markdown(results))
    write_text(folder / "report.tex", to_latex(results))
    write_html(results, folder / "report.html")
