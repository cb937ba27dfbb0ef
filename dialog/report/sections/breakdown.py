"""Breakdown of bits per byte and F1 by properties of the examples, and calibration."""

from __future__ import annotations

from collections.abc import Sequence

from dialog.report.drawing.charts import Spread, categories_svg, reliability_svg
from dialog.report.formats.metrics import metric_display
from dialog.report.formats.numbers import count, percent
from dialog.report.formats.results import Breakdown, Bucket, Results
from dialog.report.sections.cost import state_rows
from dialog.report.tables import (
    NONE,
    ReportCell,
    ReportSection,
    ReportTable,
    RowGroup,
    figure_of,
    has_several_seeds,
    optional,
    table_of_contenders,
    table_of_groups,
    text_row,
)

TITLES = {"rarest word": "occurrences of the rarest word in train", "act": "dialogue act"}
"""Titles of properties whose name in results.json does not explain itself."""

TRAINING_LENGTH = "context length"
LENGTHS = (TRAINING_LENGTH, "context words")
"""Properties by which answer accuracy is reported."""

BARS = "; bars: standard deviation over seeds"


def breakdown(results: Results) -> ReportSection:
    """Return bits per byte and F1 by context length, response length, rarest word and
    dialogue act; for tasks with known answers first their accuracy by context length.
    """
    names = results.names
    filled = [part for part in results.breakdown if part.buckets]
    measured = [part for part in filled if _is_measured([part], names, "bits_per_byte")]
    drawings = [_chart(part, names) for part in measured if len(part.buckets) > 1]
    caption = "Bits per byte of the references; lower is better."
    by_length = [part for part in filled if part.by == "context words"]
    has_answers = any("answer_accuracy" in model.means() for model in results.models)
    if has_answers and by_length:
        trained = [part.buckets[0].label for part in filled if part.by == TRAINING_LENGTH]
        drawings = [_answers_chart(by_length[0], names, trained), *drawings]
        caption = (
            f"First: answer accuracy by the length of the context{BARS}. Others: bits per byte of"
            " the references; lower is better."
        )
    over = "; mean over seeds" if has_several_seeds(results) else ""
    tables = (
        *(_answers_tables(filled, results, over) if has_answers else ()),
        *_table(filled, names, "bits_per_byte", over),
        *_table(filled, names, "f1", over, folded="F1"),
    )
    return ReportSection("Breakdown", tables, figure_of(drawings, caption, small=True))


def calibration(results: Results) -> ReportSection:
    """Return the calibration error of each contender, and accuracy against confidence."""
    entries = {index: results.calibration.get(name) for index, name in enumerate(results.names)}
    points = {
        index: [(part.confidence, part.accuracy) for part in entry.bins]
        for index, entry in entries.items()
        if entry
    }
    if not points:
        return ReportSection("Calibration")
    errors = text_row(
        "Calibration error ↓",
        *(optional(entry.error if entry else None, percent) for entry in entries.values()),
    )
    caption = (
        "Expected calibration error: mean distance between the probability of the most probable"
        " next token and its accuracy, weighted by tokens."
    )
    tables = table_of_contenders(results, [RowGroup("", (errors,))], caption)
    drawing = reliability_svg(points, x="confidence", y="accuracy")
    return ReportSection(
        "Calibration", tables, figure_of([drawing], "Dashed: calibrated.", small=True)
    )


def _answers_tables(
    parts: Sequence[Breakdown], results: Results, over: str
) -> tuple[ReportTable, ...]:
    """Return answer accuracy by the length of the context, with each contender's bytes of state."""
    chosen = [part for part in parts if part.by in LENGTHS]
    rows = (text_row(label, *sizes, NONE) for label, sizes in state_rows(results.models))
    states = RowGroup("Memory", tuple(rows))
    return _table(chosen, results.names, "answer_accuracy", over, further=(states,))


def _table(
    parts: Sequence[Breakdown],
    names: Sequence[str],
    metric: str,
    over: str,
    folded: str = "",
    further: Sequence[RowGroup] = (),
) -> tuple[ReportTable, ...]:
    """Return a group for each property; nothing for a metric that no contender has."""
    if not _is_measured(parts, names, metric):
        return ()
    groups = [
        RowGroup(_title(part).capitalize(), tuple(_row(b, names, metric) for b in part.buckets))
        for part in parts
    ]
    groups += further
    caption = f"{metric_display(metric).label} by property of the example{over}."
    options = {"caption": caption, "contenders": len(names), "folded": folded}
    return table_of_groups(("", *names, "Examples"), groups, **options)


def _row(bucket: Bucket, names: Sequence[str], metric: str) -> tuple[ReportCell, ...]:
    values = (
        optional(_value(bucket, name, metric), metric_display(metric).format) for name in names
    )
    return text_row(bucket.label, *values, count(bucket.examples))


def _chart(part: Breakdown, names: Sequence[str]) -> str:
    values = {
        index: [_value(bucket, name) for bucket in part.buckets] for index, name in enumerate(names)
    }
    series = {
        index: [None if value is None else Spread(value) for value in line]
        for index, line in values.items()
        if set(line) != {None}
    }
    labels = [bucket.label for bucket in part.buckets]
    return categories_svg(
        labels, series, x=_title(part), y="bits per byte", ordered=part.by != "act"
    )


def _answers_chart(part: Breakdown, names: Sequence[str], trained: Sequence[str]) -> str:
    series = {
        index: [Spread(100 * each.mean, each.std and 100 * each.std) for each in line]
        for index, name in enumerate(names)
        if len(line := list(filter(None, (bucket.exact.get(name) for bucket in part.buckets))))
        == len(part.buckets)
    }
    labels = [bucket.label for bucket in part.buckets]
    title = "; ".join([_title(part), *trained])
    return categories_svg(labels, series, x=title, y="answer accuracy, %")


def _is_measured(parts: Sequence[Breakdown], names: Sequence[str], metric: str) -> bool:
    buckets = [bucket for part in parts for bucket in part.buckets]
    return any(_value(bucket, name, metric) is not None for bucket in buckets for name in names)


def _title(part: Breakdown) -> str:
    return TITLES.get(part.by, part.by)


def _value(bucket: Bucket, name: str, metric: str = "bits_per_byte") -> float | None:
    if metric == "answer_accuracy":
        exact = bucket.exact.get(name)
        return exact.mean if exact else None
    return (bucket.values if metric == "bits_per_byte" else bucket.f1).get(name)
