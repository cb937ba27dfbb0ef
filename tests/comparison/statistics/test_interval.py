"""The interval between architectures, against classical tests, formulas and known truth."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import t, ttest_ind, ttest_rel

from dialog.comparison.statistics.interval import Runs, interval, jackknife_variance, variances

Floats = NDArray[np.float64]


def mean_runs(scores: Floats) -> Runs:
    """Return the means over dialogues of runs [n, D], and those without each dialogue."""
    dialogues = scores.shape[1]
    return Runs(scores.mean(1), (scores.sum(1, keepdims=True) - scores) / (dialogues - 1))


def test_single_runs_are_a_paired_t_test() -> None:
    a, b = np.random.default_rng(0).normal(0, 1, (2, 1, 40))
    runs = mean_runs(a), mean_runs(b + 0.3)
    estimate = interval(*runs, variances(*runs), 0.95)
    classic = ttest_rel(a[0], b[0] + 0.3)
    assert estimate.p == pytest.approx(classic.pvalue, rel=1e-6)
    assert (estimate.low, estimate.high) == pytest.approx(tuple(classic.confidence_interval()))
    assert estimate.degrees_of_freedom == 39


def test_equal_dialogues_are_a_welch_test() -> None:
    generator = np.random.default_rng(0)
    a, b = generator.normal(0, 1, (3, 1)), generator.normal(1, 2, (6, 1))
    runs = mean_runs(a + np.zeros((1, 50))), mean_runs(b + np.zeros((1, 50)))
    estimate = interval(*runs, variances(*runs), 0.9)
    classic = ttest_ind(a[:, 0], b[:, 0], equal_var=False)
    assert estimate.p == pytest.approx(classic.pvalue, rel=1e-6)
    assert (estimate.low, estimate.high) == pytest.approx(tuple(classic.confidence_interval(0.9)))


def test_components_of_a_table_of_runs_and_dialogues() -> None:
    a, b = np.random.default_rng(1).normal(0, 1, (2, 4, 30))
    a, b = a + np.arange(4)[:, None], b[:2]

    def residual_variance(scores: Floats) -> float:
        residuals = scores - scores.mean(0) - scores.mean(1, keepdims=True) + scores.mean()
        return float((residuals**2).sum() / (len(scores) - 1) / 29)

    parts = variances(mean_runs(a), mean_runs(b))
    noise = residual_variance(a) / 4 / 30 + residual_variance(b) / 2 / 30
    seeds = a.mean(1).var(ddof=1) / 4, b.mean(1).var(ddof=1) / 2
    jackknife = (a.mean(0) - b.mean(0)).var(ddof=1) / 30
    assert noise < sum(seeds)
    assert parts.seeds == pytest.approx(sum(seeds))
    assert parts.freedom == pytest.approx(sum(seeds) ** 2 / (seeds[0] ** 2 / 3 + seeds[1] ** 2))
    assert parts.dialogues == pytest.approx(max(0, jackknife - noise))
    estimate = interval(mean_runs(a), mean_runs(b), parts, 0.95)
    half = np.hypot(
        t.ppf(0.975, parts.freedom) * parts.seeds**0.5, t.ppf(0.975, 29) * parts.dialogues**0.5
    )
    assert (estimate.low, estimate.high) == pytest.approx(
        (estimate.difference - half, estimate.difference + half)
    )


def test_jackknife_of_a_ratio_is_its_linearised_variance() -> None:
    generator = np.random.default_rng(2)
    size = generator.lognormal(5, 0.6, 1000)
    nats = size * generator.normal(1.2, 0.3, 1000)
    left_out = (nats.sum() - nats) / (size.sum() - size)
    linear = ((nats - size * nats.sum() / size.sum()) ** 2).sum() / size.sum() ** 2
    assert jackknife_variance(left_out) == pytest.approx(linear, rel=0.02)


def test_identical_systems_do_not_differ() -> None:
    scores = np.random.default_rng(3).normal(0, 1, (5, 20))
    runs = mean_runs(scores), mean_runs(scores[::-1])
    same = interval(*runs, variances(*runs), 0.95)
    assert (same.difference, same.p) == (0, 1)
    assert same.low < 0 < same.high
    single = mean_runs(scores[:1]), mean_runs(scores[:1])
    assert interval(*single, variances(*single), 0.95)[:4] == (0, 0, 0, 1)


def test_a_difference_without_variance_is_certain() -> None:
    runs = mean_runs(np.full((3, 20), 0.3)), mean_runs(np.full((3, 20), 0.1))
    estimate = interval(*runs, variances(*runs), 0.95)
    assert estimate[:5] == pytest.approx((0.2, 0.2, 0.2, 0.0, 0.0))


def test_the_variance_is_at_least_that_over_dialogues() -> None:
    """Two runs whose means agree by chance vary less than the interaction that both contain."""
    scores = np.random.default_rng(5).normal(0, 1, (2, 2, 8))
    scores -= scores.mean(2, keepdims=True)
    a, b = map(mean_runs, scores)
    parts = variances(a, b)
    jackknife = jackknife_variance(a.left_out.mean(0) - b.left_out.mean(0))
    assert parts.seeds < 1e-3 * jackknife
    assert parts.standard_error**2 == pytest.approx(jackknife)


def test_one_architecture_may_vary_far_more() -> None:
    """Three seeds, of which those of one contender vary 20 times as much."""
    generator = np.random.default_rng(6)
    covered = 0
    for _ in range(600):
        a, b = (
            mean_runs(generator.normal(0, seeds, (3, 1)) + generator.normal(0, 0.06, (3, 80)))
            for seeds in (0.001, 0.02)
        )
        estimate = interval(a, b, variances(a, b), 0.95)
        covered += estimate.low <= 0 <= estimate.high
    assert 0.93 <= covered / 600 <= 0.985


@pytest.mark.parametrize(("noise", "seeds"), [(0.0, 0.02), (0.3, 0.002)])
def test_intervals_cover_the_truth(noise: float, seeds: float) -> None:
    generator = np.random.default_rng(4)
    covered = 0
    for _ in range(600):
        shared, own = generator.normal(0, 1, 80), generator.normal(0, 0.1, (2, 80))
        a, b = (
            mean_runs(
                shared
                + own[i]
                + generator.normal(0, seeds, (3, 1))
                + generator.normal(0, noise, (3, 80))
            )
            for i in range(2)
        )
        estimate = interval(a, b, variances(a, b), 0.95)
        covered += estimate.low <= 0 <= estimate.high
    assert covered / 600 >= 0.93
