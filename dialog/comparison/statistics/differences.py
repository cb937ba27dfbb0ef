"""Differences between contenders: one record for each pair, metric and subset, as in
results.json.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dialog.comparison.decisions.family import NullHypothesis, adjusted
from dialog.comparison.statistics.measured import Floats, RunMetric
from dialog.comparison.statistics.subset import (
    Subset,
    SystemRuns,
    Tested,
    UntestableError,
    is_bootstrapped,
)
from dialog.report.formats.metrics import Better
from dialog.report.formats.results import NOT_TESTED, Difference

ARCHITECTURES = "t over seeds and dialogues"
ONE_RUN_OF_A = "t over the seeds of b and dialogues (one run of a)"
ONE_RUN_OF_B = "t over the seeds of a and dialogues (one run of b)"
TWO_RUNS = "paired bootstrap and randomization over dialogues (one run each)"
TWO_RUNS_JACKKNIFE = "paired jackknife and randomization over dialogues (one run each)"
"""Methods of tests: over the seeds of both contenders, of one, or of none."""


def hypothesis(record: Difference) -> NullHypothesis:
    """Return the hypothesis that a difference tests."""
    return NullHypothesis(record.a, record.b, record.metric, record.subset)


def differences(
    contenders: Sequence[SystemRuns],
    better: Mapping[str, Better],
    subsets: Mapping[str, NDArray[np.bool_]],
    *,
    tested: Sequence[str],
    level: float = 0.95,
    resamples: int = 10_000,
) -> list[Difference]:
    """Return the differences of all pairs of contenders in all metrics on all subsets, without
    decisions.

    Args:
        contenders: Systems and their measured runs.
        better: Metrics and their better direction.
        subsets: Masks of the examples [N]; one without examples is left out.
        tested: Metrics with a p-value, the primary one first; on subsets other than "all" only the
            primary one.
        level: Level of the intervals.
        resamples: Number of bootstrap resamples and of random swaps for pairs of single runs.
    """
    found: list[Difference] = []
    for name, examples in subsets.items():
        if examples.any():
            subset = Subset(contenders, examples, level=level, resamples=resamples)
            found += _pairs(subset, name, better, tested if name == "all" else tested[:1])
    return found


def decided(
    records: Sequence[Difference],
    primary: str,
    p_values: Mapping[NullHypothesis, float],
    level: float = 0.95,
) -> list[Difference]:
    """Return records with `p_holm` and `decided`, corrected for all tests of the report.

    The primary metric on all dialogues is tested first; a secondary hypothesis of a pair is decided
    only if it is. A pair without a test of the primary metric decides nothing.

    Args:
        records: Records of `differences`.
        primary: The primary metric.
        p_values: p-values after the correction for looks; hypotheses without one are not tested.
        level: 1 - level is the probability of any wrong decision in the report.
    """
    first = {test.pair: p for test, p in p_values.items() if test[2:] == (primary, "all")}
    others: dict[tuple[str, str], dict[NullHypothesis, float]] = {pair: {} for pair in first}
    for test, p in p_values.items():
        if test.pair in first and test[2:] != (primary, "all"):
            others[test.pair][test] = p
    of_primary, of_others = adjusted([*first.values()], [[*ps.values()] for ps in others.values()])
    corrected = {
        NullHypothesis(*pair, primary): p for pair, p in zip(first, of_primary, strict=True)
    }
    for tests, ps in zip(others.values(), of_others, strict=True):
        corrected |= dict(zip(tests, ps, strict=True))
    certain = {
        hypothesis(record)
        for record in records
        if corrected.get(hypothesis(record), 1.0) <= 1 - level
        and not record.interval[0] <= 0 <= record.interval[1]
    }
    return [
        replace(
            record,
            p_holm=corrected.get(hypothesis(record)),
            decided=hypothesis(record) in certain
            and NullHypothesis(record.a, record.b, primary) in certain,
        )
        for record in records
    ]


def bounded(record: Difference, span: float) -> Difference:
    """Restrict a record to differences from -span to span, since a metric in [0, span] has no
    others.

    The coverage of the interval stays the same. A detectable difference above the span becomes
    None.
    """
    detectable = record.detectable_difference
    return replace(
        record,
        interval=tuple(min(max(limit, -span), span) for limit in record.interval),
        detectable_difference=None if detectable is None or detectable > span else detectable,
    )


def method(runs: tuple[int, int], metric: RunMetric) -> str:
    """Return the method for a pair with this number of runs."""
    if runs == (1, 1):
        return TWO_RUNS if is_bootstrapped(metric) else TWO_RUNS_JACKKNIFE
    return ONE_RUN_OF_A if runs[0] == 1 else ONE_RUN_OF_B if runs[1] == 1 else ARCHITECTURES


def improvement_probability(a: Floats, b: Floats, better: Better) -> float | None:
    """Return the share of pairs of runs in which a is better than b, ties count half; None without
    a better direction.

    Agarwal et al. (2021), NeurIPS. Also None for two single runs.
    """
    if better is None or len(a) == len(b) == 1:
        return None
    ahead = np.sign(a[:, None] - b) * (1 if better == "higher" else -1)
    return float((ahead + 1).mean() / 2)


def _pairs(
    subset: Subset, name: str, better: Mapping[str, Better], tested: Sequence[str]
) -> Iterator[Difference]:
    for a, b in combinations(subset.runs, 2):
        runs = [*subset.runs[a], *subset.runs[b]]
        metrics = [metric for metric in better if any(metric in run for run in runs)]
        for metric, result in subset.test(a, b, metrics, tested).items():
            if isinstance(result, UntestableError):
                yield Difference(
                    metric, a, b, name, f"{NOT_TESTED}{result}", _difference(subset, a, b, metric)
                )
            else:
                record = Difference(metric, a, b, name, "")
                yield _record(subset, record, result, better[metric], tested)


def _record(
    subset: Subset, record: Difference, result: Tested, better: Better, tested: Sequence[str]
) -> Difference:
    runs = (len(subset.runs[record.a]), len(subset.runs[record.b]))
    estimate, parts = result
    return replace(
        record,
        method=method(runs, subset.runs[record.a][0][record.metric]),
        difference=estimate.difference,
        interval=(estimate.low, estimate.high),
        p=estimate.p if record.metric in tested else None,
        standard_error=estimate.standard_error,
        degrees_of_freedom=None if runs == (1, 1) else estimate.degrees_of_freedom,
        improvement_probability=improvement_probability(
            subset.values(record.a, record.metric), subset.values(record.b, record.metric), better
        ),
        detectable_difference=parts.detectable_difference(1 - subset.level),
    )


def _difference(subset: Subset, a: str, b: str, metric: str) -> float | None:
    """Return the difference of means without a test; None if a run has no value, or tokenizers
    differ.
    """
    try:
        subset.check_tokenizers(a, b, metric)
        return float(subset.values(a, metric).mean() - subset.values(b, metric).mean())
    except UntestableError:
        return None
