"""Interval and p-value for the difference between two architectures, from seeds and dialogues; the
difference that can be detected, and the number of seeds that would decide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import chi2, t

from dialog.comparison.statistics.measured import Floats

LEVEL = 0.95
"""Confidence level of all intervals of a comparison; tests reject at 1 - `LEVEL`."""
EXACT = 1e-12
"""Differences and standard errors below this share of the values are rounding errors."""


class Runs(NamedTuple):
    """One metric of the runs of a contender: values [n], and values without dialogue d [n, D]."""

    values: Floats
    left_out: Floats


class Interval(NamedTuple):
    """Estimated difference with its interval and two-sided p-value."""

    difference: float
    low: float
    high: float
    p: float
    standard_error: float
    degrees_of_freedom: float


@dataclass(frozen=True)
class Variances:
    """Components of the variance of a difference between two contenders a and b.

    Args:
        seeds: Variance between the runs of a, and of b; 0 for a single run.
        noise: Part of the variance of a run's value that is interaction of run and dialogue, of a
            and of b.
        dialogues: Variance of the difference over dialogues, for averages over infinitely many
            runs.
        number: Number of dialogues D.
    """

    seeds: tuple[float, float]
    noise: tuple[float, float]
    dialogues: float
    number: int

    def estimate(self, runs: tuple[int, int]) -> tuple[float, float]:
        """Return standard error and degrees of freedom of a difference between means over this
        number of runs.

        The latter are Satterthwaite's: V^2 / sum of V_i^2 / f_i. A sum of components never has
        fewer than the smallest f_i. V, from which the interaction is subtracted, may have fewer if
        its estimate is too large by chance; it is then not subtracted, which makes the interval
        wider.
        """
        seeds = [variance / n for variance, n in zip(self.seeds, runs, strict=True)]
        interaction = sum(noise / n for noise, n in zip(self.noise, runs, strict=True))
        # variances and their degrees of freedom
        parts = [(self.dialogues + interaction, self.number - 1)]
        parts += [(variance, n - 1) for variance, n in zip(seeds, runs, strict=True) if n > 1]
        squares = sum(variance**2 / freedom for variance, freedom in parts)
        if not squares:
            return 0.0, self.number - 1.0
        total = self.dialogues + sum(seeds)
        if total**2 < squares * min(freedom for _, freedom in parts):
            total += interaction
        return math.sqrt(total), total**2 / squares


def variances(a: Runs, b: Runs) -> Variances:
    """Return the variance components of mean(a) - mean(b).

    The jackknife variance over dialogues of the seed-averaged difference contains the interaction
    of run and dialogue, and so does the variance between runs. It is estimated by the residuals of
    the leave-one-out values after run and dialogue means, and taken out of the former: both would
    count it twice, as variances clustered two ways would (Cameron, Gelbach and Miller 2011).
    """
    jackknife = jackknife_variance(a.left_out.mean(0) - b.left_out.mean(0))
    noise = (run_noise(a.left_out), run_noise(b.left_out))
    shared = jackknife - noise[0] / len(a.values) - noise[1] / len(b.values)
    seeds = (seed_variance(a.values), seed_variance(b.values))
    return Variances(seeds, noise, max(0.0, shared), a.left_out.shape[1])


def jackknife_variance(left_out: Floats) -> float:
    """Return (D - 1) / D * sum of squared deviations of the leave-one-out values [D].

    Efron and Stein (1981).
    """
    return float((len(left_out) - 1) * left_out.var())


def seed_variance(values: Floats) -> float:
    """Return the variance between runs, with n - 1; 0 for a single run."""
    return float(values.var(ddof=1)) if len(values) > 1 else 0.0


def run_noise(left_out: Floats) -> float:
    """Return the variance that the interaction of run and dialogue gives the value of one run; 0
    for a single run.
    """
    runs, dialogues = left_out.shape
    if runs < 2:
        return 0.0
    residuals = left_out - left_out.mean(0) - left_out.mean(1, keepdims=True) + left_out.mean()
    return float((dialogues - 1) / dialogues * np.square(residuals).sum() / (runs - 1))


def interval(a: Runs, b: Runs, parts: Variances, level: float) -> Interval:
    """Return the t interval of mean(a) - mean(b), and the p-value of the same t."""
    runs = (len(a.values), len(b.values))
    difference = float(a.values.mean() - b.values.mean())
    error, freedom = parts.estimate(runs)
    rounding = EXACT * max(abs(float(a.values.mean())), abs(float(b.values.mean())))
    if abs(difference) <= rounding:
        difference = 0.0
    if error <= rounding:
        return Interval(difference, difference, difference, float(difference == 0), 0.0, freedom)
    half = float(t.ppf((1 + level) / 2, freedom)) * error
    p = 2 * float(t.sf(abs(difference) / error, freedom))
    return Interval(difference, difference - half, difference + half, p, error, freedom)


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
