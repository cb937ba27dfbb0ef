"""Interval and p-value for the difference between two architectures, from seeds and dialogues; the
difference that can be detected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaincinv, ndtr, stdtrit

from dialog.comparison.statistics.measured import Floats

LEVEL = 0.95
"""Confidence level of all intervals of a comparison; tests reject at 1 - `LEVEL`."""
EXACT = 1e-12
"""Differences and standard errors below this share of the values are rounding errors."""
LEAST_P = 1e-100
"""Smallest p-value that is computed."""
POWER = 0.8
LARGEST = 1e6
"""Critical values above this one detect nothing."""
QUANTILES = (np.arange(1000) + 0.5) / 1000
"""Probabilities at which a chi-square distribution is evaluated to integrate over it."""


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
    """Variance of a difference between the means of two contenders: V = `seeds` + `dialogues`.

    Args:
        seeds: S, the sum of the variances of both means over runs; 0 for two single runs.
        freedom: Degrees of freedom of S after Satterthwaite.
        dialogues: R, the variance over dialogues that S does not contain.
        number: Number of dialogues D.
    """

    seeds: float
    freedom: float
    dialogues: float
    number: int

    @property
    def standard_error(self) -> float:
        """Square root of V."""
        return math.sqrt(self.seeds + self.dialogues)

    @property
    def degrees_of_freedom(self) -> float:
        """Degrees of freedom of S; D - 1 if S is 0."""
        return self.freedom if self.seeds else self.number - 1.0

    def half_width(self, alpha: float) -> float:
        """Return half of the interval at level 1 - alpha: sqrt(t_f² S + t_{D-1}² R), where t is the
        quantile at 1 - alpha / 2 for the degrees of freedom of each part.

        It also covers if one contender varies far more than the other: t for V as a whole would
        have too many degrees of freedom whenever S is small by chance.
        """
        return math.sqrt(
            float(stdtrit(self.degrees_of_freedom, alpha / 2)) ** 2 * self.seeds
            + float(stdtrit(self.number - 1, alpha / 2)) ** 2 * self.dialogues
        )

    def p_value(self, difference: float) -> float:
        """Return the alpha at which the interval of this difference begins to exclude 0."""
        if self.half_width(LEAST_P) <= abs(difference):
            return LEAST_P

        def excess(logarithm: float) -> float:
            return self.half_width(math.exp(logarithm)) - abs(difference)

        return math.exp(float(brentq(excess, math.log(LEAST_P), 0.0, rtol=1e-12)))

    def detectable_difference(self, alpha: float) -> float:
        """Return the true difference that a two-sided test at level alpha finds with probability
        `POWER`; not finite if the critical value is too large.

        The probability is integrated over the chi-square distributions of S and R, both at the same
        quantile.
        """
        error = self.standard_error
        if not error:
            return 0.0
        critical = np.zeros(len(QUANTILES))
        for variance, freedom in (
            (self.seeds, self.degrees_of_freedom),
            (self.dialogues, self.number - 1),
        ):
            # quantiles of chi-square; importing scipy.stats for them takes 0.7 s
            estimates = variance * 2 * gammaincinv(freedom / 2, QUANTILES) / freedom
            critical += float(stdtrit(freedom, alpha / 2)) ** 2 * estimates
        limits = np.sqrt(critical) / error  # of a normal, for each estimate of its error
        if not limits.max() < LARGEST:
            return math.inf

        def missing_power(mean: float) -> float:
            return float(np.mean(ndtr(mean - limits) + ndtr(-mean - limits))) - POWER

        return error * float(brentq(missing_power, 0.0, float(limits.max()) + 10, xtol=1e-9))


def variances(a: Runs, b: Runs) -> Variances:
    """Return the variance of mean(a) - mean(b).

    The jackknife variance over dialogues of the seed-averaged difference contains the interaction
    of run and dialogue, and so does the variance between runs. It is estimated by the residuals of
    the leave-one-out values after run and dialogue means, and taken out of the former: both would
    count it twice, as variances clustered two ways would (Cameron, Gelbach and Miller 2011). The
    interaction is at most the whole variance between runs, so V is at least the jackknife variance.
    """
    jackknife = jackknife_variance(a.left_out.mean(0) - b.left_out.mean(0))
    runs = [one for one in (a, b) if len(one.values) > 1]
    parts = [seed_variance(one.values) / len(one.values) for one in runs]
    seeds = sum(parts)
    squares = sum(part**2 / (len(one.values) - 1) for part, one in zip(parts, runs, strict=True))
    interaction = min(seeds, sum(run_noise(one.left_out) / len(one.values) for one in runs))
    dialogues = max(0.0, jackknife - interaction)
    freedom = seeds**2 / squares if squares else a.left_out.shape[1] - 1.0
    return Variances(seeds, freedom, dialogues, a.left_out.shape[1])


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
    """Return the interval of mean(a) - mean(b), and the p-value that fits it."""
    difference = float(a.values.mean() - b.values.mean())
    error = parts.standard_error
    freedom = parts.degrees_of_freedom
    rounding = EXACT * max(abs(float(a.values.mean())), abs(float(b.values.mean())))
    if abs(difference) <= rounding:
        difference = 0.0
    if error <= rounding:
        return Interval(difference, difference, difference, float(difference == 0), 0.0, freedom)
    half = parts.half_width(1 - level)
    p = parts.p_value(difference)
    return Interval(difference, difference - half, difference + half, p, error, freedom)
