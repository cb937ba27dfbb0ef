from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from dialog.comparison.statistics.differences import holm, holm_levels
from dialog.comparison.statistics.interval import (
    POWER,
    Variances,
    detectable_difference,
    seeds_needed,
)


@pytest.mark.parametrize(
    ("freedom", "alpha"), [(2, 0.05), (4.4, 0.05), (8, 0.002), (299, 0.05), (1.2, 0.001)]
)
def test_detectable_differences_are_detected(freedom: float, alpha: float) -> None:
    generator = np.random.default_rng(0)
    true = detectable_difference(0.5, freedom, alpha)
    errors = 0.5 * np.sqrt(generator.chisquare(freedom, 100_000) / freedom)
    estimates = true + generator.normal(0, 0.5, 100_000)
    assert (np.abs(estimates / errors) > t.ppf(1 - alpha / 2, freedom)).mean() == pytest.approx(
        POWER, abs=0.006
    )


def test_the_smallest_number_of_seeds_that_decides() -> None:
    parts = Variances((0.01, 0.02), (0.001, 0.001), 1e-4, 300)
    number = seeds_needed(parts, -0.1, (3, 3), 0.05)
    assert number is not None

    def detectable(seeds: int) -> float:
        runs = (seeds, seeds)
        return detectable_difference(*parts.estimate(runs), 0.05)

    assert detectable(number) <= 0.1 < detectable(number - 1)
    assert seeds_needed(parts, 0.1, (3, 3), 0.01) > number


def test_runs_beyond_the_number_count() -> None:
    parts = Variances((0.01, 0.01), (0.0, 0.0), 1e-5, 300)
    both, one = seeds_needed(parts, 0.1, (3, 3), 0.05), seeds_needed(parts, 0.1, (1000, 3), 0.05)
    assert both is not None
    assert one is not None
    assert one < both


def test_seeds_cannot_make_up_for_dialogues() -> None:
    parts = Variances((1e-6, 1e-6), (0.0, 0.0), 0.01, 300)
    assert seeds_needed(parts, 0.28, (3, 3), 0.05) is None
    assert seeds_needed(parts, 0.29, (3, 3), 0.05) == 2
    assert seeds_needed(parts, 0.0, (3, 3), 0.05) is None


def test_holm_against_a_published_example() -> None:
    # of the article "Holm-Bonferroni method" in Wikipedia: two are rejected
    p_values = [0.01, 0.04, 0.03, 0.005]
    assert holm(p_values) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm_levels(p_values, 0.05) == pytest.approx([0.05 / 3, 0.05 / 2, 0.05 / 2, 0.05 / 4])
    assert holm([]) == []
    assert holm([0.7, 0.8]) == [1, 1]
