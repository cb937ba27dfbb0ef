"""The metrics of one evaluation as lines of a terminal: on all, clean and leaked dialogues, and of reference rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dialog.report.measures import LOSSY_NOTE, lossy_mark, metric_display, metric_value, sort_metrics

LABEL, NUMBER = 28, 14
"""Widths of columns; one with a longer heading is wider."""
REFERENCE_METRICS = ("bits_per_byte", "f1", "sacrebleu", "distinct_2", "length_mean")
"""Metrics of the reference rows that are shown; metrics.json has all."""


def evaluation_lines(metrics: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines for the content of a metrics.json."""
    parts = [part for part in metrics.get("subsets", {}).items() if part[1]["examples"]]
    if parts:
        yield _line("", ["all", *(name for name, _ in parts)])
    for name in sort_metrics(set(metrics)):
        if metric_value(metrics[name]) is not None:
            columns = [_format(name, part.get(name)) for part in (metrics, *(part for _, part in parts))]
            yield _line(metric_display(name).label, columns) + lossy_mark(name, metrics)
    headings = [metric_display(name).label for name in REFERENCE_METRICS]
    if metrics.get("baselines"):
        yield ""
        yield _line("Reference rows", headings)
    for row, values in metrics.get("baselines", {}).items():
        yield _line(row.replace("_", " "), [_format(name, values.get(name)) for name in REFERENCE_METRICS], headings)
    if not metrics["lossless"]:
        yield LOSSY_NOTE.strip()
    for name, value in metrics.items():
        if isinstance(value, Mapping) and "signature" in value:
            yield f"{metric_display(name).label}: {value['signature']}"


def _line(label: str, columns: list[str], headings: Sequence[str] = ()) -> str:
    widths = [max(NUMBER, len(heading) + 2) for heading in headings or columns]
    cells = (f"{column:>{width}}" for column, width in zip(columns, widths, strict=True))
    return f"{label:<{LABEL}}{''.join(cells)}".rstrip()


def _format(name: str, value: object) -> str:
    number = metric_value(value)
    return "" if number is None else metric_display(name).format(number)
