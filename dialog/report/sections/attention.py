"""Attention statistics: the mean of all cross-attention heads, and the range over single heads."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from dialog.report.drawing.attention.statistics import GROUPS, SUMMARIES
from dialog.report.drawing.charts import Spread, changes_svg
from dialog.report.formats.numbers import decimals
from dialog.report.formats.results import AttentionStatistics, Results
from dialog.report.tables import (
    NONE,
    ReportCell,
    ReportSection,
    Row,
    RowGroup,
    figure_of,
    has_several_seeds,
    mean_and_deviation,
    spread_text,
    table_of_groups,
    text_row,
)

MEAN = "mean"
UNIFORM = "uniform"


def attention_statistics(results: Results) -> ReportSection:
    """Return the statistics of all contenders, by group: a drawing and a table with mean and spread
    over seeds.
    """
    runs = results.attention.statistics
    names = results.names
    drawings = []
    groups = []
    for title, group in GROUPS.items():
        bars = []
        rows = []
        for name, (label, _) in group.items():
            values = {index: _values(runs, model, name, MEAN) for index, model in enumerate(names)}
            means = {
                index: Spread(*mean_and_deviation(seeds))
                for index, seeds in values.items()
                if seeds
            }
            if means:
                bars.append((label, means))
                rows.append(_row(label, runs, names, name))
        if bars:
            drawings.append(changes_svg(bars, x=title.lower()))
        groups.append(RowGroup(title, tuple(rows)))
    several = has_several_seeds(results)
    deviation = (
        "± standard deviation over seeds, and the range of the single heads of the first run"
    )
    caption = (
        "Cross-attention on the test split, from 0 to 1 (correlations from −1): the mean map of"
        f" all heads and layers, {deviation if several else 'and the range of the single heads'}."
        " Equal weights: what the same weight on every token would give."
    )
    tables = table_of_groups(
        ("", *names, "equal weights"), groups, caption=caption, contenders=len(names)
    )
    if tables:
        meanings = [
            RowGroup(title, tuple(text_row(*texts) for texts in group.values()))
            for title, group in GROUPS.items()
        ]
        label = "Meaning of each statistic"
        tables += table_of_groups(("", "meaning"), meanings, caption=label, folded=label)
    dots = (
        "Dots and bars: mean and standard deviation over seeds."
        if several
        else "Mean map of all heads and layers."
    )
    return ReportSection("Attention statistics", tables, figure_of(drawings, dots, small=True))


def _row(label: str, runs: Sequence[AttentionStatistics], names: Sequence[str], name: str) -> Row:
    cells = [
        _text(_values(runs, model, name, MEAN), _head_values(runs, model, name)) for model in names
    ]
    uniform = [value for model in names for value in _values(runs, model, name, UNIFORM)]
    return (
        ReportCell(label),
        *map(ReportCell, cells),
        ReportCell(f"{fmean(uniform):.3f}" if uniform else NONE),
    )


def _text(values: Sequence[float], heads: Sequence[float]) -> str:
    if not values:
        return NONE
    number = decimals(3)
    text = spread_text(*mean_and_deviation(values), number)
    return f"{text} ({number(min(heads))} to {number(max(heads))})" if len({*heads}) > 1 else text


def _values(runs: Sequence[AttentionStatistics], model: str, name: str, module: str) -> list[float]:
    """Return the values of a summary row of each run of a model that has it."""
    of_model = [run for run in runs if run.model == model]
    rows = [row for run in of_model for row in run.rows]
    values = [row.get(name) for row in rows if row["module"] == module]
    return [value for value in values if value is not None]


def _head_values(runs: Sequence[AttentionStatistics], model: str, name: str) -> list[float]:
    """Return the values of the single heads of the first run of a model."""
    rows = next((run.rows for run in runs if run.model == model), ())
    values = [row.get(name) for row in rows if row["module"] not in SUMMARIES]
    return [value for value in values if value is not None]
