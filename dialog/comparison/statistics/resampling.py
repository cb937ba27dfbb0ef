"""Paired bootstrap and paired approximate randomization over dialogues, in blocks of resamples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from dialog.comparison.statistics.interval import Interval
from dialog.comparison.statistics.measured import Floats, RunMetric, Sums

BLOCK = 256
"""Resamples drawn at a time: weights of 256 x 1,000 dialogues take 2 MiB."""
ROUNDING = 1e-12
"""Relative difference below which two differences are equal."""


def bootstrap(runs: Sequence[Sums], count: int, seed: int = 0) -> Floats:
    """Return the metrics of runs over resampled dialogues [runs, count].

    A resample draws as many dialogues as there are, with replacement, the same for all runs. Koehn
    (2004), EMNLP, with dialogues for sentences.
    """
    resample = Sums.resamples(runs)
    return np.concatenate(
        [resample(weights) for weights in draw_weights(runs[0].dialogues, count, seed)], axis=1
    )


def randomization(
    pairs: Sequence[tuple[RunMetric, RunMetric]], count: int, seed: int = 0
) -> list[float]:
    """Return the two-sided p-value of each pair of runs under random swaps of whole dialogues.

    p = (1 + number of swaps whose absolute difference is at least the observed one) / (1 + number
    of swaps), which is `count / cost` or a few more. A swap after which the metric is undefined
    counts as such a difference. Noreen (1989); Riezler and Maxwell (2005).
    """
    least = [abs(a.value() - b.value()) * (1 - ROUNDING) for a, b in pairs]
    extreme = [1] * len(pairs)
    swaps = [1] * len(pairs)
    groups = [
        (places, pairs[places[0]][0].swaps([pairs[place] for place in places]))
        for places in _sharing(pairs)
    ]
    for block, swapped in enumerate(draw_swaps(pairs[0][0].dialogues, count, seed)):
        for places, differences in groups:
            if block * BLOCK < count // pairs[places[0]][0].cost:
                for place, values in zip(places, differences(swapped), strict=True):
                    extreme[place] += int(np.count_nonzero(~(np.abs(values) < least[place])))
                    swaps[place] += len(swapped)
    return [number / total for number, total in zip(extreme, swaps, strict=True)]


def bootstrap_interval(
    difference: float, resampled: Floats, dialogues: int, level: float
) -> Interval:
    """Return the percentile interval of the difference of two runs from its resampled values [R]; p
    is NaN.
    """
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2])
    error = float(resampled.std(ddof=1))
    return Interval(difference, float(low), float(high), math.nan, error, dialogues - 1.0)


def draw_weights(dialogues: int, count: int, seed: int) -> Iterator[Floats]:
    """Yield blocks of bootstrap weights [<= BLOCK, dialogues]: the number of times that a resample
    draws a dialogue.
    """
    generator = np.random.default_rng([seed, 0])
    for rows in _rows(count):
        drawn = generator.integers(dialogues, size=(rows, dialogues))
        drawn += np.arange(rows)[:, None] * dialogues
        yield (
            np.bincount(drawn.ravel(), minlength=rows * dialogues)
            .reshape(rows, dialogues)
            .astype(np.float64)
        )


def draw_swaps(dialogues: int, count: int, seed: int) -> Iterator[Floats]:
    """Yield blocks of fair coin flips [<= BLOCK, dialogues], 0 or 1."""
    generator = np.random.default_rng([seed, 1])
    for rows in _rows(count):
        yield generator.integers(2, size=(rows, dialogues)).astype(np.float64)


def _sharing(pairs: Sequence[tuple[RunMetric, RunMetric]]) -> list[list[int]]:
    """Return the places of the pairs in groups whose metrics share their sums."""
    groups: list[list[int]] = []
    for place, pair in enumerate(pairs):
        for group in groups:
            if all(
                run.shares_sums(first) for run, first in zip(pair, pairs[group[0]], strict=True)
            ):
                group.append(place)
                break
        else:
            groups.append([place])
    return groups


def _rows(count: int) -> Iterator[int]:
    return (min(BLOCK, count - start) for start in range(0, count, BLOCK))
