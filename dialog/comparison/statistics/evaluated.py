"""Metrics of an evaluated run, for the statistics of a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dialog.comparison.statistics.measured import Counts, RunMetric, Sums

if TYPE_CHECKING:
    from dialog.analysis.measured import Measured


def run_metrics(measured: Measured) -> dict[str, RunMetric]:
    """Return the additive metrics and those of item counts of an evaluation, by their key in
    metrics.json.
    """
    measurement = measured.measurement
    metrics: dict[str, RunMetric] = {}
    for key, statistics in measurement.statistics().items():
        metrics[key] = Sums(statistics, measured.dialogues, measurement.additive[key].value)
    for key, items in measurement.items().items():
        metrics[key] = Counts(
            items.hashes, items.sizes, measured.dialogues, measurement.counted[key].value
        )
    return {key: metrics[key] for key in measurement.metrics if key in metrics}
