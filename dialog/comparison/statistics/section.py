"""Statistical part of results.json, from the evaluations of all runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dialog.comparison.decisions.looks import Look, Seeds, spend
from dialog.comparison.decisions.primary import metrics_to_test
from dialog.comparison.statistics.differences import bounded, decided, differences, hypothesis
from dialog.comparison.statistics.interval import LEVEL
from dialog.comparison.statistics.measured import Counts, RunMetric, Sums
from dialog.comparison.statistics.ranking import ranking
from dialog.comparison.statistics.subset import SystemRuns
from dialog.comparison.statistics.verdict import Circumstances, EvaluationSet, listed, verdict
from dialog.errors import UserError
from dialog.report.formats.metrics import metric_display, sort_metrics
from dialog.report.formats.results import (
    Difference,
    LookEntry,
    Ranked,
    StatisticsSettings,
)
from dialog.report.tables import WHOLE_TEST_SET

if TYPE_CHECKING:
    from dialog.analysis.measured import Measured


RESAMPLES = 10_000


@dataclass(frozen=True)
class StatisticalResults:
    """Fields of results.json that follow from the statistics of all runs."""

    primary: str
    looks: tuple[LookEntry, ...]
    verdict: str
    ranking: Mapping[str, tuple[Ranked, ...]]
    differences: tuple[Difference, ...]
    statistics: StatisticsSettings


@dataclass(frozen=True)
class DecisionPlan:
    """Primary metric and looks, declared before there are results, and the earlier looks.

    Attributes:
        primary: The primary metric.
        looks: Number of planned looks.
        earlier: Looks of earlier reports.
    """

    primary: str
    looks: int = 1
    earlier: Sequence[Look] = ()


def statistics_section(
    evaluations: Mapping[str, Sequence[Measured]],
    plan: DecisionPlan,
    seeds: Seeds,
    *,
    test_set: EvaluationSet,
    diverged: Mapping[str, tuple[int, int]] | None = None,
    files: Collection[str] = (),
    missing: Collection[str] = (),
    resamples: int = RESAMPLES,
) -> StatisticalResults:
    """Return differences, ranking, looks and verdict.

    A subset that has all dialogues has the differences of all.

    Args:
        evaluations: Evaluations of the runs of each contender, one for each seed; all of the same
            examples in the same order.
        plan: Primary metric and looks.
        seeds: Seeds of these runs.
        test_set: What they are evaluated on.
        diverged: Number of diverged runs and of all runs, by contender.
        files: Contenders that are files of responses.
        missing: Contenders with runs that are still missing; their pairs are not tested yet, and
            this is no look at them.
        resamples: Number of bootstrap resamples and of random swaps for pairs of single runs.

    Raises:
        UserError: a contender lacks the primary metric.
    """
    systems = [
        SystemRuns(name, [run_metrics(run) for run in runs], reference_tokens(runs[0]))
        for name, runs in evaluations.items()
    ]
    if lacking := [system.name for system in systems if plan.primary not in system.runs[0]]:
        raise UserError(
            f"{listed(lacking)}: the primary metric {plan.primary} is not measured; repeat the"
            " command with another --primary and --output, and the run folders"
        )
    measured = [run for system in systems for run in system.runs]
    names = {metric for run in measured for metric in run}
    names = {metric for metric in names if metric_display(metric).tested}
    tested = metrics_to_test(sort_metrics(names), plan.primary)
    # the primary metric first
    better = {
        metric: metric_display(metric).better
        for metric in dict.fromkeys([*tested[:1], *sort_metrics(names)])
    }
    first = next(iter(evaluations.values()))[0]
    masks = subset_masks(first)
    whole = [subset for subset, examples in masks.items() if subset != "all" and examples.all()]
    parts = {subset: examples for subset, examples in masks.items() if subset not in whole}
    records = differences(systems, better, parts, tested=tested, level=LEVEL, resamples=resamples)
    p_values = {
        hypothesis(record): record.p
        for record in records
        if record.p is not None and not {record.a, record.b} & {*missing}
    }
    spent = spend(Look.now(seeds, p_values), plan.earlier, plan.looks)
    records = [
        bounded(record, metric_display(record.metric).span)
        for record in decided(records, plan.primary, spent.p_values, LEVEL)
    ]
    means = means_of(systems, masks["all"])
    rankings = {
        metric: ranking(
            metric,
            {name: values[metric] for name, values in means.items() if metric in values},
            [record for record in records if (record.metric, record.subset) == (metric, "all")],
        )
        for metric in tested
    }
    about = Circumstances(
        test_set,
        runs={system.name: len(system.runs) for system in systems},
        files=files,
        diverged=diverged,
        missing=missing,
        late=spent.late,
        looks=plan.looks,
        level=LEVEL,
    )
    text = verdict(records, rankings, better, plan.primary, about)
    records += [replace(record, subset=subset) for subset in whole for record in records]
    return StatisticalResults(
        plan.primary,
        tuple(look.entry for look in spent.looks),
        "\n".join([text, *(WHOLE_TEST_SET[subset] for subset in whole)]),
        rankings,
        tuple(records),
        StatisticsSettings(
            LEVEL, resamples, plan.looks, {system.name: len(system.runs) for system in systems}
        ),
    )


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
