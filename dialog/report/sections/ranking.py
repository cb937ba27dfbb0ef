"""First section of a report: differences with intervals as a picture, and the ranking of more than
two contenders.
"""

from __future__ import annotations

from collections.abc import Sequence

from dialog.report.drawing.forest import ForestRow, forest_svg
from dialog.report.drawing.groups import groups_svg
from dialog.report.formats.metrics import metric_display
from dialog.report.formats.results import Difference, Results
from dialog.report.sections.differences import differences_of, without_untested
from dialog.report.tables import (
    Figure,
    ReportCell,
    ReportSection,
    ReportTable,
    RowGroup,
    interval_text,
    metric_label,
    p_text,
    signed,
    table_of_groups,
)

TITLE = "Differences"
MOST_PAIRS = 28
"""Rows of a picture of pairs; of more, those with the best contender."""
MOST_METRICS = 6
"""Columns of the ranking table."""


def ranking(results: Results) -> ReportSection:
    """Return pictures of the differences in the tested metrics of two contenders, or in the primary
    metric of all pairs; and the ranking.
    """
    if not results.ranking or not differences_of(results, "all", results.primary):
        return ReportSection(TITLE)
    if len(results.names) == 2:
        return ReportSection(TITLE, figures=_figures([_metrics(results)]))
    figures = _figures([_pairs(results)])
    if len(_order(results)) > 3:
        figures = (_groups(results), *figures)
    return ReportSection(TITLE, _table(results), figures)


def _figures(drawings: Sequence[tuple[str, str]]) -> tuple[Figure, ...]:
    return tuple(Figure((svg,), caption, legend=False) for svg, caption in drawings if svg)


def _metrics(results: Results) -> tuple[str, str]:
    """Return a picture and caption of two contenders in all tested metrics."""
    entries = [
        entry for metric in results.ranking for entry in differences_of(results, "all", metric)
    ]
    records = [entry for entry in entries if entry.interval and entry.p_holm is not None]
    if not records:
        return "", ""
    a, b = results.names
    rows = [
        _row(
            metric_label(entry.metric),
            entry,
            bold=entry.metric == results.primary,
        )
        for entry in without_untested(results, records)
    ]
    drawing = forest_svg(
        rows, title=f"{a} and {b}", left=f"← {b} better", right=f"{a} better →", common=False
    )
    caption = (
        f"Differences {a} − {b} with {_level(results)} intervals, the primary metric first, each"
        " metric on its own scale. Filled: decided, the probability of any wrong decision being"
        " 5 %."
    )
    return drawing, caption


def _pairs(results: Results) -> tuple[str, str]:
    """Return a picture and caption of all pairs in the primary metric, the best contender first."""
    metric = results.primary
    order = _order(results)
    entries = {}
    for entry in differences_of(results, "all", metric):
        if entry.interval:
            entries[entry.a, entry.b] = entry
    rows = []
    for place, name in enumerate(order):
        for other in order[place + 1 :]:
            if place and len(entries) > MOST_PAIRS:
                continue
            pair = entries.get((name, other)) or entries.get((other, name))
            if pair:
                sign = 1 if pair.a == name else -1
                rows.append(_row(f"{name} − {other}", pair, sign=sign))
    if not rows:
        return "", ""
    label = metric_label(metric)
    drawing = forest_svg(
        rows, title=label, left="← second better", right="first better →", common=True
    )
    shown = ", pairs with the best contender" if len(entries) > MOST_PAIRS else ""
    caption = (
        f"{label}: differences with {_level(results)} intervals{shown}. Filled: decided, the"
        " probability of any wrong decision over all pairs and metrics being 5 %."
    )
    return drawing, caption


def _row(label: str, entry: Difference, *, sign: int = 1, bold: bool = False) -> ForestRow:
    """Return the row of a difference times `sign`, drawn to the right if it is better."""
    display = metric_display(entry.metric)
    to_text = display.format
    difference = entry.difference or 0.0
    ahead = sign if display.better == "higher" else -sign
    low, high = sorted(ahead * limit for limit in entry.interval)
    limits = sorted(sign * limit for limit in entry.interval)
    p = p_text(entry.p_holm)
    text = f"{signed(sign * difference, to_text)} {interval_text(limits, to_text)}"
    if entry.p_holm is not None:
        text += f", p {p if p.startswith('<') else f'= {p}'}"
    return ForestRow(label, low, ahead * difference, high, text, entry.decided, bold)


def _groups(results: Results) -> Figure:
    """Return the means on an axis, with bars over groups that are not distinguished."""
    metric = results.primary
    entries = results.ranking[metric]
    to_text = metric_display(metric).format
    letters = sorted({letter for entry in entries for letter in entry.groups})
    groups = [
        [place for place, entry in enumerate(entries) if letter in entry.groups]
        for letter in letters
    ]
    drawing = groups_svg(
        [f"{entry.name} {to_text(entry.mean)}" for entry in entries],
        [entry.mean for entry in entries],
        groups,
        title=metric_label(metric),
    )
    caption = (
        f"Means in {metric_label(metric)}, the best at the left. A bar joins contenders that are"
        " not distinguished."
    )
    return Figure((drawing,), caption, legend=False)


def _table(results: Results) -> tuple[ReportTable, ...]:
    """Return the ranking: a row for each contender, mean and group letters in tested metrics."""
    metrics = [*results.ranking][:MOST_METRICS]
    cells = {
        (metric, entry.name): f"{metric_display(metric).format(entry.mean)} {entry.groups}"
        for metric in metrics
        for entry in results.ranking[metric]
    }
    rows = (
        (
            ReportCell(name),
            *(ReportCell(cells.get((metric, name), "–")) for metric in metrics),
        )
        for name in _order(results)
    )
    caption = (
        "Ranking by the primary metric. Contenders that share a letter in a metric are not"
        " distinguished in it; letters of secondary metrics are corrected together with those of"
        " the primary one."
    )
    head = ("", *map(metric_label, metrics))
    return table_of_groups(
        head, [RowGroup("", tuple(rows))], caption=caption, metrics=tuple(metrics)
    )


def _order(results: Results) -> list[str]:
    return [entry.name for entry in results.ranking[results.primary]]


def _level(results: Results) -> str:
    return f"{100 * results.statistics.level:g} %"
