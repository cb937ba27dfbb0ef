"""Statistics of ratings, against known values, closed forms and simulations."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from dialog.comparison.preference.agreement import agreement, krippendorff
from dialog.comparison.preference.estimation import (
    RatedSample,
    bradley_terry,
    limits,
    p_value,
    share,
    share_limits,
    two_way,
)
from dialog.comparison.preference.planning import power
from dialog.report.formats.preferences import PeopleAgreement


def sample(
    wins: np.ndarray, raters: np.ndarray, dialogues: np.ndarray, first: np.ndarray | None = None
) -> RatedSample:
    """Return ratings of contenders 0 and 1, of which `wins` says whether 0 has won."""
    first = np.zeros(len(wins), np.int64) if first is None else first
    return RatedSample(first, 1 - first, np.where(first == 0, wins, 1 - wins), raters, dialogues)


def test_alpha_is_that_of_the_textbook() -> None:
    """Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", example C: 0.743."""
    observers = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
        [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
    ]
    columns = zip(*observers, strict=True)
    units = [Counter(str(value) for value in column if value) for column in columns]
    result = krippendorff(units, [str(number) for number in range(12)])
    assert (result.units, round(result.alpha or 0, 3)) == (11, 0.743)
    assert result.interval[0] < 0.743 < result.interval[1]
    assert krippendorff([Counter("aa"), Counter("aaa")], ["1", "2"]).alpha is None
    assert krippendorff([Counter("a")], ["1"]).units == 0


def test_kappa_is_zero_by_chance_and_one_for_equal_choices() -> None:
    one = {n: ("a", "b", "tie")[n % 3] for n in range(9)}
    other = {n: ("a", "b", "tie")[n // 3] for n in range(9)}
    assert agreement(one, other) == PeopleAgreement(9, 3 / 9, 0.0)
    assert agreement(one, one).kappa == 1
    assert agreement({1: "a"}, {1: "a"}).kappa is None
    assert agreement({1: "a"}, {2: "a"}).items == 0


def test_two_contenders_have_the_closed_form() -> None:
    """Each is shown first as often, so raters have no bias: odds are those of the wins."""
    wins = np.tile(np.repeat([1.0, 0.0], [30, 10]), 2)
    first = np.repeat([0, 1], 40)
    data = sample(wins, np.zeros(80, np.int64), np.arange(80), first)
    model = bradley_terry(data, 2, precision=1e-9)
    assert np.diff(model.strengths)[0] == pytest.approx(-math.log(3), abs=1e-6)
    assert model.biases == pytest.approx(0, abs=1e-6)
    # the delta method: 1 / sqrt(n p (1 - p)) for log odds
    variances = two_way(model.influence[:, 0] * 2, data.raters, data.dialogues)
    expected = math.sqrt(80 / 79 / (80 * 0.75 * 0.25))
    assert variances.standard_error == pytest.approx(expected, rel=1e-3)
    always = bradley_terry(sample(np.ones(9), np.arange(9), np.arange(9)), 2)
    assert np.isfinite(always.strengths).all()


def test_strengths_and_biases_are_recovered() -> None:
    generator = np.random.default_rng(0)
    number = 20_000
    strengths = np.array([0.8, 0.1, -0.9])
    biases = np.array([0.6, -0.2, 0.0, -0.5])
    first = generator.integers(0, 3, number)
    second = (first + generator.integers(1, 3, number)) % 3
    raters = generator.integers(0, 4, number)
    wins = generator.random(number) < expit(strengths[first] - strengths[second] + biases[raters])
    data = RatedSample(first, second, wins.astype(float), raters, np.arange(number))
    model = bradley_terry(data, 3)
    assert model.strengths == pytest.approx(strengths, abs=0.05)
    assert model.biases == pytest.approx(biases, abs=0.07)


@pytest.mark.parametrize(("raters", "spread"), [(3, 0.0), (3, 0.8), (8, 0.3)])
def test_intervals_cover(raters: int, spread: float) -> None:
    """Raters and dialogues both vary, and share dialogues and raters among their ratings."""
    generator = np.random.default_rng(1)
    dialogues = np.repeat(np.arange(60), 3)
    who = (dialogues + np.tile(np.arange(3), 60)) % raters
    normal = generator.normal(0, math.hypot(1.0, spread), 100_000)
    truth = expit(0.4 + normal).mean()
    covered = []
    for _ in range(300):
        odds = 0.4 + generator.normal(0, 1.0, 60)[dialogues]
        odds += generator.normal(0, spread, raters)[who]
        wins = (generator.random(180) < expit(odds)).astype(float)
        estimate, variances = share(sample(wins, who, dialogues), 0)
        low, high = limits(estimate, variances, 0.05)
        covered.append(low <= truth <= high)
    assert 0.90 <= np.mean(covered) <= 0.99


def test_a_single_rater_has_the_interval_of_the_mean() -> None:
    wins = np.random.default_rng(0).choice([0.0, 0.5, 1.0], 40)
    estimate, variances = share(sample(wins, np.zeros(40, np.int64), np.arange(40)), 0)
    assert estimate == pytest.approx(wins.mean())
    assert variances.standard_error == pytest.approx(wins.std(ddof=1) / math.sqrt(40), rel=1e-6)


def test_unanimous_ratings_have_an_exact_interval() -> None:
    """The limit is the share with which a binomial gives as many successes at 2.5 %."""
    one_rater = np.zeros(40, np.int64)
    expected = stats.binomtest(40, 40).proportion_ci(0.95, "exact")
    for value in (1.0, 0.0):
        mean, variances = share(sample(np.full(40, value), one_rater, np.arange(40)), 0)
        low, high = share_limits(mean, variances, 0.05)
        assert (high - low, max(low, 1 - high)) == pytest.approx((1 - expected.low, expected.low))
        assert p_value(mean, variances) == pytest.approx(stats.binomtest(40, 40).pvalue)
    ties, variances = share(sample(np.full(40, 0.5), one_rater, np.arange(40)), 0)
    assert share_limits(ties, variances, 0.05) == ()


def test_power_grows_with_raters_and_pairs() -> None:
    """Without differences the better one is found in at most half of 5 % of studies or so."""
    values = [power(5, 20), power(5, 100), power(20, 100), power(20, 100, 0.75)]
    assert values == sorted(values)
    assert values[-1] > 0.99
    assert power(5, 100, 0.5) < 0.05
