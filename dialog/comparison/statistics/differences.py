"""Differences between contenders: one record for each pair, metric and subset, as in
results.json.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dialog.comparison.statistics.interval import detectable_difference, seeds_needed
from dialog.comparison.statistics.measured import Floats, RunMetric
from dialog.comparison.statistics.subset import (
    Subset,
    SystemRuns,
    Tested,
    UntestableError,
    is_bootstrapped,
)
from dialog.report.formats.metrics import Better

ARCHITECTURES = "t over seeds and dialogues"
ONE_RUN_OF_A = "t over the seeds of b and dialogues (one run of a)"
ONE_RUN_OF_B = "t over the seeds of a and dialogues (one run of b)"
TWO_RUNS = "paired bootstrap and randomization over dialogues (one run each)"
TWO_RUNS_JACKKNIFE = "paired jackknife and randomization over dialogues (one run each)"
NOT_TESTED = "not tested: "


@dataclass(frozen=True)
class Difference:
    """Entry of "differences" in results.json; `difference` is a's mean over runs minus b's.

    `method` is one of the constants above, or `NOT_TESTED` and a reason; then only the difference
    may have a value. `decided` means: p after Holm is at most 1 - level, and the interval excludes
    0.
    """

    metric: str
    a: str
    b: str
    subset: str
    method: str
    difference: float | None = None
    interval: tuple[float, ...] = ()
    p: float | None = None
    p_holm: float | None = None
    decided: bool = False
    standard_error: float | None = None
    degrees_of_freedom: float | None = None
    improvement_probability: float | None = None
    detectable_difference: float | None = None
    seeds_needed: int | None = None

    @property
    def tested(self) -> bool:
        """True with an interval and a p-value."""
        return not self.method.startswith(NOT_TESTED)

    @property
    def why_untested(self) -> str:
        """The reason without a test."""
        return self.method.removeprefix(NOT_TESTED)

    @property
    def single_runs(self) -> tuple[str, ...]:
        """Contenders that have a single run, if the difference is tested."""
        return {
            TWO_RUNS: (self.a, self.b),
            TWO_RUNS_JACKKNIFE: (self.a, self.b),
            ONE_RUN_OF_A: (self.a,),
            ONE_RUN_OF_B: (self.b,),
        }.get(self.method, ())


def differences(
    contenders: Sequence[SystemRuns],
    better: Mapping[str, Better],
    subsets: Mapping[str, NDArray[np.bool_]],
    *,
    level: float = 0.95,
    resamples: int = 10_000,
) -> list[Difference]:
    """Test all pairs of contenders in all metrics on all subsets.

    Holm's correction is over the metrics of one pair, and with more than two contenders over the
    pairs in one metric also: of the two corrected p-values the larger one counts. Subsets are not
    corrected for.

    Args:
        contenders: Systems and their measured runs.
        better: Metrics and their better direction.
        subsets: Masks of the examples [N]; one without examples is left out.
        level: Level of the intervals; 1 - level is the level of the tests.
        resamples: Number of bootstrap resamples and of random swaps for pairs of single runs.
    """
    found: list[Difference] = []
    for name, examples in subsets.items():
        if examples.any():
            subset = Subset(contenders, examples, level=level, resamples=resamples)
            found += _pairs(subset, name, better)
    return found


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


def _pairs(subset: Subset, name: str, better: Mapping[str, Better]) -> Iterator[Difference]:
    results = {
        (a, b): subset.test(
            a, b, [metric for metric in better if any(metric in run for run in runs)]
        )
        for a, b in combinations(subset.runs, 2)
        for runs in [(*subset.runs[a], *subset.runs[b])]
    }
    corrected = _corrected(results, 1 - subset.level)
    for (a, b), metrics in results.items():
        for metric, result in metrics.items():
            if isinstance(result, UntestableError):
                yield Difference(
                    metric, a, b, name, f"{NOT_TESTED}{result}", _difference(subset, a, b, metric)
                )
            else:
                record = Difference(metric, a, b, name, "")
                yield _record(subset, record, result, better[metric], *corrected[a, b, metric])


def _corrected(
    results: Mapping[tuple[str, str], Mapping[str, Tested | UntestableError]], alpha: float
) -> dict[tuple[str, str, str], tuple[float, float]]:
    """Return Holm's p-value and level of each tested pair and metric: the stricter of the families
    that it belongs to.

    A family is one pair in all metrics, or one metric in all pairs.
    """
    p_values = {}
    for (a, b), metrics in results.items():
        for metric, result in metrics.items():
            if isinstance(result, Tested):
                p_values[a, b, metric] = result.estimate.p
    families: dict[object, list[tuple[str, str, str]]] = {}
    for a, b, metric in p_values:
        families.setdefault((a, b), []).append((a, b, metric))
        families.setdefault(metric, []).append((a, b, metric))
    corrected = dict.fromkeys(p_values, (0.0, alpha))
    for tests in families.values():
        family = [p_values[test] for test in tests]
        for test, p, level in zip(tests, holm(family), holm_levels(family, alpha), strict=True):
            corrected[test] = max(corrected[test][0], p), min(corrected[test][1], level)
    return corrected


def _record(
    subset: Subset, record: Difference, tested: Tested, better: Better, p_holm: float, alpha: float
) -> Difference:
    runs = (len(subset.runs[record.a]), len(subset.runs[record.b]))
    estimate, parts = tested
    excluded = not estimate.low <= 0 <= estimate.high
    decided = p_holm <= 1 - subset.level and excluded
    seeds = None
    if parts is not None and min(runs) > 1 and not decided and estimate.difference:
        seeds = seeds_needed(parts, estimate.difference, runs, alpha)
    return replace(
        record,
        method=method(runs, subset.runs[record.a][0][record.metric]),
        difference=estimate.difference,
        interval=(estimate.low, estimate.high),
        p=estimate.p,
        p_holm=p_holm,
        decided=decided,
        standard_error=estimate.standard_error,
        degrees_of_freedom=estimate.degrees_of_freedom if parts is not None else None,
        improvement_probability=improvement_probability(
            subset.values(record.a, record.metric), subset.values(record.b, record.metric), better
        ),
        detectable_difference=detectable_difference(
            estimate.standard_error, estimate.degrees_of_freedom, alpha
        ),
        seeds_needed=seeds,
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


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values, in the order of the tests.

    The k-th smallest of m p-values is multiplied by m - k + 1. The products are at most 1 and do
    not decrease with k. Rejecting those up to alpha keeps the probability of any false rejection at
    alpha, for dependent tests also.
    Holm (1979), Scandinavian Journal of Statistics 6.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, test in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[test]))
        adjusted[test] = largest
    return adjusted


def holm_levels(p_values: Sequence[float], alpha: float) -> list[float]:
    """Return the level at which Holm's procedure tests each p-value: alpha / (tests not rejected
    before it).

    All tests that are not rejected have the level of the first of them.
    """
    rejected = [p <= alpha for p in holm(p_values)]
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    levels = [0.0] * len(p_values)
    for rank, test in enumerate(order):
        levels[test] = alpha / (len(order) - min(rank, sum(rejected)))
    return levels
