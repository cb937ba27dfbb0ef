"""Differences between contenders: interval, p value, probability of improvement, and the best
contender if decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from dialog.report.formats.metrics import best_first, better_of, metric_display
from dialog.report.formats.numbers import percent
from dialog.report.formats.results import Difference, Results
from dialog.report.tables import (
    NONE,
    ReportCell,
    ReportSection,
    ReportTable,
    Row,
    RowGroup,
    interval_text,
    metric_label,
    optional,
    p_text,
    signed,
    subsets_of,
    table_of_groups,
    text_row,
)

PROBABILITY = "Prob. of improvement"
MOST_ROWS = 500
"""Rows of a table of all pairs, so that a page of many contenders stays below 2 MB."""
ADJUSTED = "p (adj.)"
LESS_NEEDED = (PROBABILITY, ADJUSTED, "Difference")
"""Columns that a narrow terminal leaves out, in this order; marks and intervals remain."""
SIGNIFICANT = (
    "significant after the correction for all tests of the report, with an interval that excludes"
    " 0. –: not measured or not tested."
)
DECIDED_NOTE = f"Bold: decided, that is, {SIGNIFICANT}"
BEST_NOTE = f"Bold: decidedly better than every other contender, that is, {SIGNIFICANT}"

UNTESTED = (
    "Without interval, as they are no function of sums over dialogues, or repeat another metric"
)


def differences_of(results: Results, subset: str, metric: str) -> list[Difference]:
    """Return the differences of all pairs in one metric on one subset."""
    return [
        entry for entry in results.differences if (entry.subset, entry.metric) == (subset, metric)
    ]


def without_untested(results: Results, differences: Iterable[Difference]) -> list[Difference]:
    """Return differences without adjusted p where the primary metric of their pair is not decided:
    their other hypotheses are not tested.
    """
    first = differences_of(results, "all", results.primary)
    decided = {entry.pair for entry in first if entry.decided}
    return [
        entry
        if entry.pair in decided or (entry.metric, entry.subset) == (results.primary, "all")
        else replace(entry, p_holm=None)
        for entry in differences
    ]


def winner(differences: Sequence[Difference], names: Sequence[str]) -> str | None:
    """Return the contender that is better than every other one by a decided difference."""
    beaten: dict[str, set[str]] = {name: set() for name in names}
    for entry in differences:
        best = better_of(entry.pair, entry.difference, metric_display(entry.metric).better)
        if entry.decided and best is not None:
            beaten.setdefault(best, set()).update({*entry.pair} - {best})
    others = len(names) - 1
    return next((name for name in names if others and len(beaten[name]) == others), None)


def difference_head(results: Results) -> tuple[str, ...]:
    """Return the headings of `difference_cells`."""
    return ("Difference", f"{_percent_level(results)} interval", ADJUSTED, PROBABILITY)


def difference_cells(entry: Difference | None) -> Row:
    """Return difference, interval, adjusted p, and probability of improvement."""
    if entry is None:
        return (ReportCell(NONE),) * 4
    to_text = metric_display(entry.metric).format
    mark: Literal["", "decided"] = "decided" if entry.decided else ""
    return (
        ReportCell(optional(entry.difference, lambda value: signed(value, to_text)), mark),
        ReportCell(interval_text(entry.interval, to_text), mark),
        ReportCell(p_text(entry.p_holm)),
        ReportCell(optional(entry.improvement_probability, percent)),
    )


def matrix(results: Results, metrics: Sequence[str], caption: str) -> tuple[ReportTable, ...]:
    """Return the intervals of all pairs of more than two contenders in the first metric that has a
    better direction.

    A row and a column for each contender, the best first: row minus column. A group for each subset
    with tests.
    """
    judged = (
        name
        for name in metrics
        if metric_display(name).better and differences_of(results, "all", name)
    )
    metric = next(judged, None)
    if metric is None:
        return ()
    names = ranked_names(results, metric)
    groups = (
        RowGroup(
            title,
            tuple(
                _matrix_row(results, subset, metric, names, row) for row in range(len(names) - 1)
            ),
        )
        for subset, title in subsets_of(results).items()
        if any(entry.interval for entry in differences_of(results, subset, metric))
    )
    note = (
        f"{metric_label(metric)}, row minus column, the best contender first:"
        f" {_percent_level(results)} intervals"
    )
    return table_of_groups(
        (metric_label(metric), *names[1:]), groups, caption=f"{note}. {caption}", metrics=(metric,)
    )


def ranked_names(results: Results, metric: str) -> list[str]:
    """Return the contenders that have a value of a metric on all dialogues, the best first."""
    means = {model.name: model.means().get(metric) for model in results.models}
    values = {name: entry.mean for name, entry in means.items() if entry}
    return best_first(metric, values)


def pairwise(results: Results, metrics: Sequence[str], caption: str) -> tuple[ReportTable, ...]:
    """Return the differences of more than two contenders: a row per metric and pair, a group per
    subset.
    """
    shown = fitting_metrics(results, metrics)

    def row(entry: Difference) -> Row:
        label = metric_label(entry.metric)
        return (*text_row(label, _pair(entry)), *difference_cells(entry))

    groups = _groups_of_tests(results, shown, row)
    head = ("", "Pair", *difference_head(results))
    options = {
        "caption": caption,
        "metrics": tuple(shown),
        "folded": _label_of_pairs("Every pair", shown, metrics),
    }
    return without_probabilities(table_of_groups(head, groups, **options))


def _groups_of_tests(
    results: Results, metrics: Sequence[str], row: Callable[[Difference], Row]
) -> Iterator[RowGroup]:
    """Yield a group for each subset, with a row for each metric and pair."""
    for subset, title in subsets_of(results).items():
        entries = (entry for metric in metrics for entry in differences_of(results, subset, metric))
        yield RowGroup(title, tuple(map(row, without_untested(results, entries))))


def fitting_metrics(results: Results, metrics: Sequence[str]) -> list[str]:
    """Return the first metrics, at least one, of which all pairs and subsets fit into `MOST_ROWS`
    rows.
    """
    pairs = {(entry.a, entry.b, entry.subset) for entry in results.differences}
    return [*metrics[: max(1, MOST_ROWS // max(1, len(pairs)))]]


def without_probabilities(tables: tuple[ReportTable, ...]) -> tuple[ReportTable, ...]:
    """Return tables without a column of improvement probabilities that has no value, as for single
    seeds.
    """

    def columns(table: ReportTable) -> list[int]:
        return [
            column
            for column, name in enumerate(table.head)
            if name != PROBABILITY or any(row[column].text != NONE for row in table.rows)
        ]

    return tuple(table.select(columns(table)) for table in tables)


def statistics(results: Results) -> ReportSection:
    """Return how each difference was tested, and how much a comparison of this size can detect."""
    several = len(results.names) > 2
    metrics = [*dict.fromkeys(entry.metric for entry in results.differences)]
    shown = fitting_metrics(results, metrics)
    groups = _groups_of_tests(results, shown, lambda entry: _power_row(entry, several))
    columns = ("p", "Standard error", "Degrees of freedom", "Detectable difference", "Method")
    caption = (
        "p before correction, standard error of each difference, and the smallest difference that"
        " a comparison of this size would detect with a probability of 80 %, by one test at 5 %."
    )
    head = ("", *(("Pair",) if several else ()), *columns)
    label = _label_of_pairs("Power and method of every test", shown, metrics)
    return ReportSection("Statistics", table_of_groups(head, groups, caption=caption, folded=label))


def pair_note(results: Results, metrics: Sequence[str]) -> str:
    """Return which contender is subtracted from which, and how the intervals of these metrics were
    computed.
    """
    tested = [
        entry for entry in results.differences if entry.p is not None and entry.metric in metrics
    ]
    methods = " or ".join(dict.fromkeys(entry.method for entry in tested))
    probability = (
        "; probability of improvement: share of pairs of seeds in which the first is better"
        if any(entry.improvement_probability is not None for entry in tested)
        else ""
    )
    pair = next(iter(results.differences))
    names = results.names
    subtraction = (
        f"{_pair(pair)}" if len(names) == 2 else "first minus second contender of the pair"
    )
    return (
        f"Difference: {subtraction}; interval and p: {methods or 'not tested'}; {ADJUSTED} is"
        " corrected for all tests of the report, the primary metric"
        f" ({metric_display(results.primary).label}) first; metrics without a better direction,"
        " or that measure the same as another, are not tested, and on subsets the primary metric"
        f" only{probability}. {DECIDED_NOTE}{untested_note(results, metrics)}"
    )


def untested_note(results: Results, metrics: Sequence[str]) -> str:
    """Return a sentence on the metrics that have no test, with a space before it; empty if all have
    one.
    """
    tested = {entry.metric for entry in results.differences}
    labels = ", ".join(metric_display(metric).label for metric in metrics if metric not in tested)
    return f" {UNTESTED}: {labels}." if labels and tested else ""


def _matrix_row(results: Results, subset: str, metric: str, names: Sequence[str], row: int) -> Row:
    """Return the intervals of one contender minus each worse one; blank below the diagonal."""
    intervals: dict[tuple[str, str], tuple[Sequence[float], bool]] = {}
    for entry in differences_of(results, subset, metric):
        turned = [-limit for limit in reversed(entry.interval)]
        intervals[entry.a, entry.b] = (entry.interval, entry.decided)
        intervals[entry.b, entry.a] = (turned, entry.decided)
    cells = [ReportCell("")] * row
    for other in names[row + 1 :]:
        interval, decided = intervals.get((names[row], other), ((), False))
        text = interval_text(interval, metric_display(metric).format)
        cells.append(ReportCell(text, "decided" if decided else ""))
    return (ReportCell(names[row]), *cells)


def _label_of_pairs(label: str, shown: Sequence[str], metrics: Sequence[str]) -> str:
    """Return the label of a folded table, with the number of metrics if it has not all of them."""
    return (
        label
        if len(shown) == len(metrics)
        else f"{label}, {len(shown)} of {len(metrics)} metrics (all: results.json)"
    )


def _power_row(entry: Difference, several: bool) -> Row:
    to_text = metric_display(entry.metric).format
    error = entry.standard_error
    detectable = entry.detectable_difference
    texts = (
        p_text(entry.p),
        optional(error, to_text).replace(" %", " pp"),
        optional(entry.degrees_of_freedom, lambda value: f"{value:.1f}"),
        optional(detectable, to_text).replace(" %", " pp"),
        entry.method,
    )
    pair = (_pair(entry),) if several else ()
    return text_row(metric_display(entry.metric).label, *pair, *texts)


def _pair(entry: Difference) -> str:
    return f"{entry.a} − {entry.b}"


def _percent_level(results: Results) -> str:
    return f"{100 * results.statistics.level:g} %"
