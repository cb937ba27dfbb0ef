"""Metrics of all contenders on a subset of the examples, and the test of one pair: t, or bootstrap
and randomization over dialogues, in blocks of resamples.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from dialog.comparison.statistics.interval import Interval, Runs, Variances, interval, variances
from dialog.comparison.statistics.measured import Floats, RunMetric, Sums

LEAST_DIALOGUES = 6
"""With fewer, no randomization test can have p <= 0.05: its smallest p is 2 / 2^D."""
BOOTSTRAPPED = 20
"""With fewer dialogues, intervals of a percentile bootstrap cover too rarely; those of a jackknife
with t do not.
"""
PER_TOKEN = {"perplexity_token", "token_accuracy"}
"""Metrics that depend on the tokenizer."""


@dataclass(frozen=True)
class SystemRuns:
    """A system and the metrics of its runs, one mapping for each seed; all runs have the same
    examples.

    `tokens` are the numbers of target tokens and of unknown ones of each reference [N, 2]; None if
    they are not known.
    """

    name: str
    runs: Sequence[Mapping[str, RunMetric]]
    tokens: Floats | None = None


class UntestableError(Exception):
    """A difference that cannot be tested, and why."""


class Tested(NamedTuple):
    """Interval and p-value, and the variances of a difference; that of two single runs is only over
    dialogues.
    """

    estimate: Interval
    parts: Variances


class Subset:
    """Metrics of contenders on some examples, and the values that several pairs need.

    Args:
        contenders: Systems and their runs.
        examples: Mask of the examples [N].
        level: Level of the intervals, such as 0.95.
        resamples: Number of bootstrap resamples and of random swaps.
    """

    def __init__(
        self,
        contenders: Sequence[SystemRuns],
        examples: NDArray[np.bool_],
        *,
        level: float = 0.95,
        resamples: int = 10_000,
    ) -> None:
        self.runs = {
            contender.name: [
                {key: run[key].restrict(examples) for key in run} for run in contender.runs
            ]
            for contender in contenders
        }
        self.tokens = {contender.name: contender.tokens for contender in contenders}
        measured = (run for runs in self.runs.values() for run in runs)
        numbers = (metric.dialogues for run in measured for metric in run.values())
        self.dialogues = max(numbers, default=0)
        self.level = level
        self.resamples = resamples
        self._runs: dict[tuple[str, str], Runs] = {}
        self._resampled = self._resample_single_runs()

    def values(self, name: str, metric: str) -> Floats:
        """Return the metric of each run of a contender [n].

        Raises:
            UntestableError: a run has no value, or no finite one.
        """
        runs = self.runs[name]
        if not all(metric in run for run in runs):
            raise UntestableError(f"not measured for {name}")
        values = np.array([run[metric].value() for run in runs])
        undefined = np.flatnonzero(~np.isfinite(values)) + 1
        if len(undefined):
            raise UntestableError(
                f"undefined for {name}, run {', '.join(map(str, undefined))} of {len(runs)}"
            )
        return values

    def check_tokenizers(self, a: str, b: str, metric: str) -> None:
        """Raise UntestableError for a metric per token if two systems differ in a reference's
        number of tokens.
        """
        one = self.tokens[a]
        other = self.tokens[b]
        if metric in PER_TOKEN and one is not None and other is not None and (one != other).any():
            raise UntestableError("the tokenizers differ, and this depends on the tokenizer")

    def test(
        self, a: str, b: str, metrics: Sequence[str], randomized: Collection[str]
    ) -> dict[str, Tested | UntestableError]:
        """Test the difference between two contenders in each metric, if there are enough dialogues;
        of two single runs, only `randomized` metrics have a p-value.
        """
        if self.dialogues < LEAST_DIALOGUES:
            return dict.fromkeys(
                metrics, UntestableError(f"fewer than {LEAST_DIALOGUES} dialogues")
            )
        single = len(self.runs[a]) == len(self.runs[b]) == 1
        results: dict[str, Tested | UntestableError] = {}
        for metric in metrics:
            try:
                self.check_tokenizers(a, b, metric)
                results[metric] = (
                    self._two_runs(a, b, metric) if single else self._architectures(a, b, metric)
                )
            except UntestableError as reason:
                results[metric] = reason
        return self._randomize(a, b, results, randomized) if single else results

    def _architectures(self, a: str, b: str, metric: str) -> Tested:
        runs = self._left_out(a, metric), self._left_out(b, metric)
        parts = variances(*runs)
        return Tested(interval(*runs, parts, self.level), parts)

    def _two_runs(self, a: str, b: str, metric: str) -> Tested:
        """Return the interval of two single runs, without a p-value: bootstrap, else jackknife."""
        difference = float(self.values(a, metric)[0] - self.values(b, metric)[0])
        if (a, metric) not in self._resampled:
            return self._architectures(a, b, metric)
        resampled = self._resampled[a, metric] - self._resampled[b, metric]
        if not np.isfinite(resampled).all():
            raise UntestableError(f"undefined for some resamples of the {self.dialogues} dialogues")
        estimate = bootstrap_interval(difference, resampled, self.dialogues, self.level)
        over_dialogues = Variances(0.0, 0.0, estimate.standard_error**2, self.dialogues)
        return Tested(estimate, over_dialogues)

    def _randomize(
        self,
        a: str,
        b: str,
        results: dict[str, Tested | UntestableError],
        randomized: Collection[str],
    ) -> dict[str, Tested | UntestableError]:
        """Fill in the p-values of two single runs."""
        tested = {
            metric: result
            for metric, result in results.items()
            if isinstance(result, Tested) and metric in randomized
        }
        if not tested:
            return results
        (run_a,) = self.runs[a]
        (run_b,) = self.runs[b]
        p_values = randomization([(run_a[key], run_b[key]) for key in tested], self.resamples)
        filled = {
            metric: Tested(result.estimate._replace(p=float(p)), result.parts)
            for (metric, result), p in zip(tested.items(), p_values, strict=True)
        }
        return {**results, **filled}

    def _left_out(self, name: str, metric: str) -> Runs:
        """Return values and leave-one-out values of the runs of a contender; computed once."""
        if (name, metric) not in self._runs:
            values = self.values(name, metric)
            left_out = np.array([run[metric].leave_one_out() for run in self.runs[name]])
            if not np.isfinite(left_out).all():
                raise UntestableError(f"undefined for {name} without one of the dialogues")
            self._runs[name, metric] = Runs(values, left_out)
        return self._runs[name, metric]

    def _resample_single_runs(self) -> dict[tuple[str, str], Floats]:
        """Return the resampled values [R] of metrics of sums of contenders with one run, if there
        are several.
        """
        single = [(name, runs[0]) for name, runs in self.runs.items() if len(runs) == 1]
        sums: dict[tuple[str, str], Sums] = {}
        for name, run in single:
            bootstrapped = {key: values for key, values in run.items() if is_bootstrapped(values)}
            sums |= {(name, metric): values for metric, values in bootstrapped.items()}
        if not sums or len(single) < 2:
            return {}
        return dict(zip(sums, bootstrap([*sums.values()], self.resamples), strict=True))


def is_bootstrapped(metric: RunMetric) -> TypeGuard[Sums]:
    """Return whether the interval of two single runs is that of a bootstrap, for sums over enough
    dialogues.
    """
    return isinstance(metric, Sums) and metric.dialogues >= BOOTSTRAPPED


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
