"""Order of the sections of a report."""

from __future__ import annotations

from dialog.report.formats.results import Results
from dialog.report.sections.attention import attention_statistics
from dialog.report.sections.breakdown import breakdown, calibration
from dialog.report.sections.context_use import context_use
from dialog.report.sections.cost import cost, runs, trials
from dialog.report.sections.curves import curves
from dialog.report.sections.differences import statistics
from dialog.report.sections.judges import judges
from dialog.report.sections.parity import parity
from dialog.report.sections.ranking import ranking
from dialog.report.sections.ratings import ratings
from dialog.report.sections.scores import generation, likelihood
from dialog.report.tables import ReportSection

MAIN = (
    ranking,
    parity,
    likelihood,
    generation,
    ratings,
    judges,
    cost,
    curves,
    context_use,
    breakdown,
    calibration,
    attention_statistics,
)
"""Sections before the examples."""
APPENDIX = (statistics, trials, runs)
"""Sections after the examples."""


def main_sections(results: Results) -> list[ReportSection]:
    """Return the sections before the examples, without empty ones."""
    return _filled([section(results) for section in MAIN])


def appendix(results: Results) -> list[ReportSection]:
    """Return the sections after the examples, without empty ones."""
    return _filled([section(results) for section in APPENDIX])


def _filled(sections: list[ReportSection]) -> list[ReportSection]:
    return [section for section in sections if section.tables or section.figures]
