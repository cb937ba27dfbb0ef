"""Statistical part of results.json, from the evaluations of all runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dialog.comparison.statistics.differences import bounded, differences
from dialog.comparison.statistics.interval import LEVEL
from dialog.comparison.statistics.measured import Counts, RunMetric, Sums
from dialog.comparison.statistics.ranking import rankings
from dialog.comparison.statistics.subset import SystemRuns
from dialog.comparison.statistics.verdict import verdicts
from dialog.report.formats.metrics import metric_display, sort_metrics
from dialog.report.tables import WHOLE_TEST_SET

if TYPE_CHECKING:
    from dialog.analysis.measured import Measured


RESAMPLES = 10_000
NOT_COMPARED = {"nll_nats", "unknown_ratio"}
"""Metrics that repeat another one, or describe the test set."""


def statistics_section(
    evaluations: Mapping[str, Sequence[Measured]],
    *,
    diverged: Mapping[str, tuple[int, int]] | None = None,
    files: Collection[str] = (),
    resamples: int = RESAMPLES,
) -> dict[str, Any]:
    """Return "verdict", "verdicts", "rankings", "differences" and "statistics" of results.json.

    The verdict consists of "verdicts" for two contenders, and of "rankings" for more. A subset that
    has all dialogues has the differences of all, and no verdict of its own.

    Args:
        evaluations: Evaluations of the runs of each contender, one for each seed; all of the same
            examples in the same order.
        diverged: Number of diverged runs and of all runs, by contender.
        files: Contenders that are files of responses.
        resamples: Number of bootstrap resamples and of random swaps for pairs of single runs.
    """
    systems = [
        SystemRuns(name, [run_metrics(run) for run in runs], reference_tokens(runs[0]))
        for name, runs in evaluations.items()
    ]
    measured = [run for system in systems for run in system.runs]
    names = {metric for run in measured for metric in run} - NOT_COMPARED
    better = {metric: metric_display(metric).better for metric in sort_metrics(names)}
    first = next(iter(evaluations.values()))[0]
    masks = subset_masks(first)
    whole = [subset for subset, examples in masks.items() if subset != "all" and examples.all()]
    parts = {subset: examples for subset, examples in masks.items() if subset not in whole}
    tested = differences(systems, better, parts, level=LEVEL, resamples=resamples)
    records = [bounded(record, metric_display(record.metric).span) for record in tested]
    pairs = verdicts(records, better, diverged=diverged, files=files, level=LEVEL)
    means = {
        subset: means_of(systems, examples) for subset, examples in parts.items() if examples.any()
    }
    ranked = (
        rankings(records, means, better, diverged=diverged, files=files, level=LEVEL)
        if len(systems) > 2
        else []
    )
    records += [replace(record, subset=subset) for subset in whole for record in records]
    lines = [
        f"{verdict['subset'].capitalize()} subset: {verdict['text']}"
        if verdict["subset"] != "all"
        else verdict["text"]
        for verdict in ranked or pairs
    ]
    return {
        "verdict": "\n".join([*lines, *(WHOLE_TEST_SET[subset] for subset in whole)]),
        "verdicts": pairs,
        "rankings": ranked,
        "differences": [asdict(record) for record in records],
        "statistics": {
            "level": LEVEL,
            "resamples": resamples,
            "seeds": {system.name: len(system.runs) for system in systems},
        },
    }


def means_of(
    systems: Sequence[SystemRuns], examples: NDArray[np.bool_]
) -> dict[str, dict[str, float]]:
    """Return the mean of each metric over the runs of each system on some examples, if it is finite
    in all.
    """
    values = {
        system.name: {
            metric: [run[metric].restrict(examples).value() for run in system.runs]
            for metric in system.runs[0]
            if all(metric in run for run in system.runs)
        }
        for system in systems
    }
    return {
        name: {
            metric: float(np.mean(runs))
            for metric, runs in metrics.items()
            if np.isfinite(runs).all()
        }
        for name, metrics in values.items()
    }


def reference_tokens(measured: Measured) -> NDArray[np.float64] | None:
    """Return the numbers of target tokens and of unknown ones of each reference [N, 2]; None if
    they are not known.
    """
    if not all("reference_tokens" in row for row in measured.rows):
        return None
    return np.array(
        [(row["reference_tokens"], row.get("reference_unknown", 0)) for row in measured.rows],
        np.float64,
    )


def subset_masks(measured: Measured) -> dict[str, NDArray[np.bool_]]:
    """Return the examples of each subset [N]: all, and if the training split is known clean and
    leaked.
    """
    masks = {"all": np.ones(len(measured.rows), dtype=np.bool_)}
    if measured.leaked is not None:
        masks |= {"clean": ~measured.leaked, "leaked": measured.leaked}
    return masks


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
