"""Difference that a comparison can detect, and number of seeds that would decide."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import chi2, t

from dialog.comparison.statistics.interval import Variances

POWER = 0.8
MOST_SEEDS = 2**20
LARGEST = 1e6
"""Critical values of t above this one, at less than about 0.2 degrees of freedom, detect nothing.
"""
QUANTILES = (np.arange(1000) + 0.5) / 1000
"""Probabilities at which a chi-square distribution is evaluated to integrate over it."""


def detectable_difference(standard_error: float, degrees_of_freedom: float, alpha: float) -> float:
    """Return the true difference that a two-sided t test at level alpha finds with probability
    `POWER`.

    The standard error times the noncentrality with P(|T| > c) = `POWER`, where T is noncentral t
    with these degrees of freedom and c the critical value; not finite if these are undefined or
    near 0. P is integrated here: scipy's noncentral t returns NaN for large c.
    """
    return _noncentrality(degrees_of_freedom, alpha) * standard_error


def seeds_needed(
    parts: Variances, difference: float, runs: tuple[int, int], alpha: float
) -> int | None:
    """Return the number of seeds of each contender with which the observed difference would be
    detected.

    It is the smallest number n so that `detectable_difference` of max(n, present runs) is at most
    the difference, for the measured variances; None if the variance over dialogues is too large for
    any number.
    """

    def decides(seeds: int) -> bool:
        future = (max(seeds, runs[0]), max(seeds, runs[1]))
        return detectable_difference(*parts.estimate(future), alpha) <= abs(difference)

    low = 1
    high = 2
    while not decides(high):
        low = high
        high = 2 * high
        if high > MOST_SEEDS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle, high)
    return high


def _noncentrality(freedom: float, alpha: float) -> float:
    critical = float(t.ppf(1 - alpha / 2, freedom))
    # of a normal, for each estimate of its error
    limits = critical * np.sqrt(chi2.ppf(QUANTILES, freedom) / freedom)
    if not limits.max() < LARGEST:  # also for degrees of freedom that are undefined
        return np.inf

    def missing_power(noncentrality: float) -> float:
        return float(np.mean(ndtr(noncentrality - limits) + ndtr(-noncentrality - limits))) - POWER

    return float(brentq(missing_power, 0.0, float(limits.max()) + 10, xtol=1e-9))
