"""Figures of a recipe over its recorded runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from dialog.report.formats.metrics import metric_at, metric_display
from dialog.report.tables import spread_text

PRIMARY = "bits_per_byte"


def mean_and_deviation(
    runs: Sequence[Mapping[str, Any]], metric: str
) -> tuple[float, float | None] | None:
    """Return mean and sample standard deviation (None for one run) of a metric; None if no run has
    it.
    """
    values = [value for run in runs if (value := metric_at(run["metrics"], metric)) is not None]
    if not values:
        return None
    return fmean(values), stdev(values) if len(values) > 1 else None


def spread(runs: Sequence[Mapping[str, Any]], metric: str, *, shown_as: str) -> str:
    """Return mean ± standard deviation of a metric with the digits of another one, or a dash if no
    run has it.
    """
    figure = mean_and_deviation(runs, metric)
    return "–" if figure is None else spread_text(*figure, metric_display(shown_as).format)
