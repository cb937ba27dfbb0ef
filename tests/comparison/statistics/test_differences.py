"""Records of all pairs, metrics and subsets."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dialog.comparison.statistics.differences import (
    ARCHITECTURES,
    ONE_RUN_OF_A,
    ONE_RUN_OF_B,
    TWO_RUNS,
    TWO_RUNS_JACKKNIFE,
    Difference,
    bounded,
    decided,
    differences,
    hypothesis,
    improvement_probability,
)
from dialog.comparison.statistics.measured import Counts, RunMetric, Sums
from dialog.comparison.statistics.subset import SystemRuns

LABELS = np.repeat(np.arange(40), 5)
ALL = {"all": np.ones(200, dtype=bool)}
SHARED = np.random.default_rng(9).normal(1, 0.3, 200)
Floats = NDArray[np.float64]


def ratio(total: Floats, weight: Floats) -> Floats:
    return np.divide(
        total, weight, out=np.full(np.shape(total), np.nan), where=np.asarray(weight) > 0
    )


def run(seed: int, shift: float = 0.0, noise: float = 0.05) -> Sums:
    scores = SHARED + shift + np.random.default_rng(seed).normal(0, noise, 200)
    return Sums(np.stack([scores, np.ones(200)], 1), LABELS, ratio)


def system(name: str, *runs: RunMetric) -> SystemRuns:
    return SystemRuns(name, [{"loss": metric} for metric in runs])


def decisions(
    systems: list[SystemRuns],
    masks: dict[str, NDArray[np.bool_]] = ALL,
    metrics: tuple[str, ...] = ("loss",),
    **options: int,
) -> list[Difference]:
    """Differences with decisions; the first metric is the primary one."""
    better = dict.fromkeys(metrics, "lower")
    records = differences(systems, better, masks, tested=metrics, **options)
    p_values = {hypothesis(record): record.p for record in records if record.p is not None}
    return decided(records, metrics[0], p_values)


def test_architectures_two_runs_and_one_run_of_a_side() -> None:
    a, b = system("a", *map(run, range(3))), system("b", *(run(seed, 0.1) for seed in range(3, 7)))
    one, other = system("one", run(8)), system("other", run(9, 0.1))
    records = decisions([a, b, one, other], resamples=1000)
    by_pair = {(record.a, record.b): record for record in records}
    assert [*by_pair] == [*combinations(("a", "b", "one", "other"), 2)]
    assert by_pair["a", "b"].method == ARCHITECTURES
    assert by_pair["a", "one"].method == ONE_RUN_OF_B
    assert by_pair["one", "other"].method == TWO_RUNS
    assert decisions([one, a])[0].method == ONE_RUN_OF_A
    apart = {pair for pair, record in by_pair.items() if record.decided}
    assert apart == {("a", "b"), ("a", "other"), ("b", "one"), ("one", "other")}
    for record in records:
        low, high = record.interval
        assert record.difference is not None
        assert low < record.difference < high
        assert (record.degrees_of_freedom is None) == (record.method == TWO_RUNS)
        assert (record.improvement_probability is None) == (record.method == TWO_RUNS)
    assert by_pair["a", "b"].improvement_probability == 1
    assert json.loads(json.dumps(asdict(by_pair["a", "b"])))["interval"] == [
        *by_pair["a", "b"].interval
    ]


def test_an_interval_ends_at_the_largest_possible_difference() -> None:
    record = Difference(
        "f1", "a", "b", "all", ARCHITECTURES, 8.5, (-102.0, 119.0), detectable_difference=140.0
    )
    limited = bounded(record, 100.0)
    assert (limited.difference, limited.interval, limited.detectable_difference) == (
        8.5,
        (-100.0, 100.0),
        None,
    )
    assert bounded(record, np.inf) == record
    untested = Difference("f1", "a", "b", "all", "not tested: one dialogue")
    assert bounded(untested, 100.0) == untested


def test_methods_agree_on_two_runs() -> None:
    a, b, twin = run(0), run(1, 0.01), run(0)
    (resampled,) = decisions([system("a", a), system("b", b)])
    parametric = decisions([system("a", a, twin), system("b", b)])[0]
    assert resampled.interval == pytest.approx(parametric.interval, abs=0.001)
    assert resampled.p == pytest.approx(parametric.p, abs=0.02)


def test_other_contenders_change_the_correction_only() -> None:
    a, b, c = system("a", run(0)), system("b", run(1)), system("c", run(2))
    (alone,) = decisions([a, b], resamples=500)
    beside = decisions([a, b, c], resamples=500)[0]
    assert (beside.p_holm or 0) >= (alone.p_holm or 0) > 0
    same = {"p_holm": None, "detectable_difference": None}
    # sums over a product of another shape are rounded in another order
    for name in ("interval", "standard_error"):
        assert getattr(beside, name) == pytest.approx(getattr(alone, name), rel=1e-9)
        same[name] = None
    assert replace(beside, **same) == replace(alone, **same)


def test_identical_runs() -> None:
    (record,) = decisions([system("a", run(0)), system("b", run(0))], resamples=500)
    assert (record.difference, record.interval, record.p, record.decided) == (0, (0, 0), 1, False)
    (record,) = decisions([system(name, run(0), run(0)) for name in "ab"])
    assert (record.difference, record.p, record.decided) == (0, 1, False)


def test_a_metric_that_is_undefined_is_not_tested() -> None:
    diverged = Sums(np.full((200, 2), np.nan), LABELS, ratio)
    (record,) = decisions([system("a", run(0), diverged, run(1)), system("b", run(2), run(3))])
    assert record == Difference("loss", "a", "b", "all", "not tested: undefined for a, run 2 of 3")


def test_a_metric_that_needs_one_dialogue_is_not_tested() -> None:
    weights = (LABELS == 3).astype(float)  # as hits@1 or the answers to questions in few dialogues
    rare = [
        Sums(np.stack([weights * value, weights], 1), LABELS, ratio) for value in (1.0, 2.0, 3.0)
    ]
    (record,) = decisions([system("a", rare[0]), system("b", rare[1])], resamples=500)
    assert record.method == "not tested: undefined for some resamples of the 40 dialogues"
    assert (record.difference, record.interval) == (-1, ())
    (record,) = decisions([system("a", *rare), system("b", *rare)])
    assert record.method == "not tested: undefined for a without one of the dialogues"


def test_few_dialogues() -> None:
    """Fewer than 6 are not tested; with fewer than 20, the interval of two runs is not that of a
    bootstrap.
    """
    for runs, method in ((1, TWO_RUNS_JACKKNIFE), (3, ARCHITECTURES)):
        systems = [system(name, *map(run, range(runs))) for name in "ab"]
        masks = {"few": LABELS < 5, "enough": LABELS < 19}
        few, enough = decisions(systems, masks, resamples=500)
        assert (few.method, few.interval, few.p) == ("not tested: fewer than 6 dialogues", (), None)
        assert few.difference is not None
        assert enough.method == method


def test_two_seeds_of_one_varying_contender_have_a_wide_interval() -> None:
    """The estimated variance has one degree of freedom: 13 standard errors to each side."""
    constant = [
        Sums(np.stack([np.full(200, value), np.ones(200)], 1), LABELS, ratio)
        for value in (0.0, 1.0)
    ]
    (record,) = decisions([system("a", *constant), system("b", *constant[:1] * 2)])
    assert (record.difference, record.degrees_of_freedom) == (0.5, pytest.approx(1))
    assert record.interval == pytest.approx((0.5 - 12.706 * 0.5, 0.5 + 12.706 * 0.5), abs=1e-3)
    assert not record.decided


def test_subsets_have_their_own_values() -> None:
    a, b = system("a", run(0), run(1)), system("b", run(2), run(3))
    masks = {"all": ALL["all"], "clean": LABELS < 30, "leaked": LABELS >= 30, "empty": LABELS < 0}
    records = decisions([a, b], masks, ("loss", "absent"))
    assert [record.subset for record in records] == ["all", "clean", "leaked"]
    whole, clean, leaked = (record.difference for record in records)
    assert None not in (whole, clean, leaked)
    assert whole == pytest.approx(0.75 * clean + 0.25 * leaked)


def test_the_primary_metric_is_tested_first() -> None:
    def contender(name: str, shift: dict[str, float], first: int) -> SystemRuns:
        runs = [
            {metric: run(10 * seed + place, shift[metric]) for place, metric in enumerate(shift)}
            for seed in range(first, first + 3)
        ]
        return SystemRuns(name, runs)

    none, better = (
        {"loss": 0.0, "other": 0.0, "same": 0.0},
        {"loss": 0.0, "other": 1.0, "same": 0.0},
    )
    masks = ALL | {"leaked": LABELS >= 20}
    records = decisions([contender("a", none, 0), contender("b", better, 3)], masks, (*none,))
    by_metric = {(record.metric, record.subset): record for record in records}
    other = by_metric["other", "all"]
    assert (other.p or 1) < 1e-4, "tested, but after the primary metric"
    assert not other.decided
    assert other.p_holm == by_metric["loss", "all"].p_holm == by_metric["loss", "all"].p
    assert by_metric["other", "leaked"].p is None
    assert by_metric["loss", "leaked"].p is not None
    records = decisions(
        [contender("a", none, 0), contender("b", better, 3)], ALL, ("other", "loss")
    )
    assert {record.metric: record.decided for record in records} == {"other": True, "loss": False}


def test_metrics_that_are_only_shown_have_intervals() -> None:
    systems = [system("a", run(0)), system("b", run(1))]
    for runs in (systems, [system("a", run(0), run(2)), system("b", run(1), run(3))]):
        records = differences(runs, {"loss": None}, ALL, tested=["f1"], resamples=100)
        (record,) = decided(records, "f1", {})
        assert (record.p, record.p_holm, record.decided) == (None, None, False)
        assert len(record.interval) == 2


def test_ties_count_half() -> None:
    a, b = np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0])
    assert improvement_probability(a, b, "lower") == pytest.approx(4.5 / 6)
    assert improvement_probability(a, b, "higher") == pytest.approx(1.5 / 6)
    assert improvement_probability(a, b, None) is None


def test_counts_are_tested_like_sums() -> None:
    def counts(seed: int, types: int) -> Counts:
        words = np.random.default_rng(seed).integers(types, size=800)
        return Counts(
            words, np.full(200, 4), LABELS, lambda c: np.count_nonzero(c, axis=-1) / c.sum(-1)
        )

    single = [
        SystemRuns("a", [{"distinct": counts(0, 100)}]),
        SystemRuns("b", [{"distinct": counts(1, 200)}]),
    ]
    several = [
        SystemRuns(name, [{"distinct": counts(seed, types)} for seed in seeds])
        for name, types, seeds in (("a", 100, (2, 3, 4)), ("b", 200, (5, 6)))
    ]
    for systems, method in ((single, TWO_RUNS_JACKKNIFE), (several, ARCHITECTURES)):
        (record,) = decisions(systems, metrics=("distinct",))
        assert record.method == method
        assert record.decided
        assert record.difference == pytest.approx(-0.12, abs=0.01)
        assert record.interval[0] < record.difference < record.interval[1]
