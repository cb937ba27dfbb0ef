from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from dialog.comparison.statistics.interval import POWER, Variances


@pytest.mark.parametrize(
    ("freedom", "alpha"), [(2, 0.05), (4.4, 0.05), (8, 0.002), (299, 0.05), (1.2, 0.001)]
)
def test_detectable_differences_are_detected(freedom: float, alpha: float) -> None:
    generator = np.random.default_rng(0)
    parts = Variances(0.25, freedom, 0.0, 300)
    true = parts.detectable_difference(alpha)
    errors = 0.5 * np.sqrt(generator.chisquare(freedom, 100_000) / freedom)
    estimates = true + generator.normal(0, 0.5, 100_000)
    assert (np.abs(estimates / errors) > t.ppf(1 - alpha / 2, freedom)).mean() == pytest.approx(
        POWER, abs=0.006
    )
    dialogues = Variances(0.0, 0.0, 0.25, round(freedom) + 1)
    if freedom == round(freedom):
        assert dialogues.detectable_difference(alpha) == pytest.approx(true)


def test_half_width_and_p_value_fit_each_other() -> None:
    parts = Variances(0.04, 2.3, 0.01, 100)
    for alpha in (0.5, 0.05, 1e-4):
        half = np.hypot(0.2 * t.isf(alpha / 2, 2.3), 0.1 * t.isf(alpha / 2, 99))
        assert parts.half_width(alpha) == pytest.approx(half)
        assert parts.p_value(-half) == pytest.approx(alpha)
    assert parts.p_value(0.0) == pytest.approx(1)
    assert 0 < parts.p_value(1e200) < 1e-50
