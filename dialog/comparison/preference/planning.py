"""Size of a study: the power to detect a preference, by simulation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, stdtrit

from dialog.comparison.preference.pairs import EVEN
from dialog.comparison.statistics.interval import LEVEL, POWER
from dialog.comparison.statistics.measured import Floats

OVERLAP = 3
"""Most raters of one pair of responses."""
PREFERENCE = 0.6
"""Share of decided ratings that prefer the better contender."""
TIES = 0.2
"""Share of ties."""
RATER_SPREAD = 0.3
PAIR_SPREAD = 1.0
"""Standard deviations of log odds between raters and between pairs of responses."""
RATERS = (3, 5, 10, 20)
SIZES = (20, 30, 50, 75, 100, 150, 200, 300, 500)
"""Numbers of raters and of pairs of responses of a plan."""
SIMULATIONS = 400


def power(raters: int, items: int, preference: float = PREFERENCE) -> float:
    """Return the probability that the interval of a study of two contenders excludes an even share,
    in favour of the better one.

    Log odds vary normally between raters and between pairs of responses. The interval is that of
    `estimation.two_way`.
    """
    scores, who = simulated(raters, items, preference, np.random.default_rng(0))
    mean = scores.mean((1, 2))
    influence = (scores - mean[:, None, None]) / scores[0].size
    single = np.square(influence).sum((1, 2))
    members = np.eye(raters)[who].reshape(-1, raters)
    by_rater = np.square(influence.reshape(len(scores), -1) @ members).sum(1)
    by_item = np.square(influence.sum(2)).sum(1) * items / (items - 1)
    between = by_rater * raters / max(raters - 1, 1) - single if raters > 1 else 0 * single
    tail = (1 - LEVEL) / 2
    half = np.sqrt(
        float(stdtrit(max(raters - 1, 1), tail)) ** 2 * np.maximum(between, 0)
        + float(stdtrit(items - 1, tail)) ** 2 * np.maximum(by_item, single)
    )
    return float((mean - half > EVEN).mean())


def simulated(
    raters: int, items: int, preference: float, generator: np.random.Generator
) -> tuple[Floats, np.ndarray[tuple[int, ...], np.dtype[np.int64]]]:
    """Return scores [S, N, K] of simulated studies, and the rater of each rating [N, K]."""
    overlap = min(raters, OVERLAP)
    who = (np.arange(items)[:, None] + np.arange(overlap)) % raters
    spread = np.hypot(RATER_SPREAD, PAIR_SPREAD) * generator.standard_normal(20_000)
    centre = brentq(lambda mean: expit(mean + spread).mean() - preference, -10, 10)
    odds = float(centre) + generator.normal(0, PAIR_SPREAD, (SIMULATIONS, items, 1))
    odds = odds + generator.normal(0, RATER_SPREAD, (SIMULATIONS, raters))[:, who]
    scores = (generator.random(odds.shape) < expit(odds)).astype(np.float64)
    scores[generator.random(odds.shape) < TIES] = EVEN
    return scores, who


def plan(raters: int, items: int) -> Iterator[str]:
    """Yield lines on the power of a study, and on the smallest studies with power `POWER`."""
    yield (
        f"Power to detect a preference of {whole_percent(PREFERENCE)} to"
        f" {whole_percent(1 - PREFERENCE)} of decided ratings, simulated with"
        f" {whole_percent(TIES)} ties, raters and pairs that differ by {RATER_SPREAD} and"
        f" {PAIR_SPREAD:g} in log odds, and at most {OVERLAP} raters for each pair:"
    )
    yield f"  this study, {raters} raters and {items} pairs of each two contenders: " + (
        whole_percent(power(raters, items)) if items > 1 else "none"
    )
    for number in RATERS:
        enough = (size for size in SIZES if power(number, size) >= POWER)
        size = next(enough, None)
        yield f"  {number} raters: " + (
            f"{whole_percent(POWER)} with {size} pairs"
            if size
            else f"less than {whole_percent(POWER)} with {SIZES[-1]} pairs, since raters differ"
        )


def whole_percent(value: float) -> str:
    """Format a fraction in [0, 1] without decimals."""
    return f"{100 * value:.0f} %"
