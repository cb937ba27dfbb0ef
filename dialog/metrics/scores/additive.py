"""Functions of sums over responses: the sums are exact, so neither the order nor the number of
processes matters.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Statistic = Any
"""One number, or one for each response or batch, in a sequence, an array or a tensor."""
Statistics = Any
"""Statistics of responses: a float64 array [N, size], or a tensor if a metric is on a device."""
Numbers = Any
"""One number, or an array of numbers [...]."""
References = str | Sequence[str]
"""One reference, or several."""
COARSE = 2.0**16
FINE = 2.0**48
"""A statistic is rounded to a multiple of 1 / FINE and split at 1 / COARSE."""
SHARES = ("answer_accuracy", "alignment_accuracy")
"""Keys of the shares against copies that a corpus records, of which responses.jsonl has no fields.
"""


class AdditiveScore:
    """Function of sums of statistics over responses.

    Each statistic is rounded to a multiple of 2^-48 and split into a multiple of 2^-16 and a rest.
    Sums of either are exact in float64 (below 2^37, for up to 4 million updates), so the value is
    bit-identical for any order of the responses, any batches and any number of processes.

    A subclass sets `size`, the number of its statistics, and defines `statistics_of` the inputs and
    `value` of the sums. So any subset or resample of responses can be scored from the statistics of
    each. `update` passes the statistics to `add`, which `AdditiveMetric` defines.
    """

    higher_is_better: bool | None = None
    size: ClassVar[int]
    statistics_of: ClassVar[Callable[..., Statistics]]
    """From the inputs of `update` to the statistics of each response, in the order of `value`:
    float64 [N, size].
    """
    value: ClassVar[Callable[..., Numbers]]
    """From the `size` sums, weighted or not, to the metric; each sum is a number or an array [...],
    as is the value.
    """
    add: Callable[[Statistics], None]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)

    def value_of(self, statistics: NDArray[np.float64]) -> float:
        """Return the metric of the responses with these statistics [N, size], equal to that of
        `AdditiveMetric.compute`.
        """
        return float(self.value(*exact_sums(statistics).sum(-1).tolist()))

    def _columns(self, *statistics: Statistic) -> Statistics:
        """Return numbers as float64 [N, size]; a single number beside several is that of each
        response.
        """
        columns = [np.atleast_1d(np.asarray(one, dtype=np.float64)).ravel() for one in statistics]
        return np.stack(np.broadcast_arrays(*columns), axis=1)


class ResponseScore(AdditiveScore):
    """Score whose statistics are computed from a response and its reference.

    `number` is the largest number of references of a response.
    """

    number = 1

    @abstractmethod
    def statistics(self, response: str, reference: str) -> Sequence[float]:
        """Return the sufficient statistics of one response."""

    def statistics_of_several(self, response: str, references: Sequence[str]) -> Sequence[float]:
        """Return the statistics of one response with the reference that gives it the best value."""
        rows = [self.statistics(response, reference) for reference in references]
        return max(rows, key=lambda row: float(self.value(*row)))

    def statistics_of(
        self, responses: Sequence[str], references: Sequence[References]
    ) -> Statistics:
        """Return the statistics of responses and their references, raw text in the same order:
        float64 [N, size]. A response has one reference, or a list of them.

        Raises:
            ValueError: the numbers of responses and references differ.
        """
        self.number = max(
            (1 if isinstance(one, str) else len(one) for one in references), default=1
        )
        rows = [
            self.statistics(response, reference)
            if isinstance(reference, str)
            else self.statistics_of_several(response, reference)
            for response, reference in zip(responses, references, strict=True)
        ]
        return np.array(rows, dtype=np.float64).reshape(-1, self.size)

    def update(self, responses: Sequence[str], references: Sequence[References]) -> None:
        """Add responses and their references."""
        self.add(self.statistics_of(responses, references))


class ShareScore(AdditiveScore):
    """Share = hits / cases, in [0, 1]."""

    higher_is_better: bool | None = True
    size = 2

    def statistics_of(self, hits: Statistic, cases: Statistic) -> Statistics:
        """Return the statistics of each response [N, size]."""
        return self._columns(hits, cases)

    def update(self, hits: Statistic, cases: Statistic) -> None:
        """Add responses."""
        self.add(self.statistics_of(hits, cases))

    def value(self, hits: Numbers, cases: Numbers) -> Numbers:
        """Return the share."""
        return ratio(hits, cases)


def exact_sums(statistics: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums of the coarse and of the fine parts of statistics [N, size]: float64 [size,
    2].
    """
    with np.errstate(invalid="ignore", over="ignore"):
        coarse = np.round(statistics * COARSE) / COARSE
        # the rest of infinity is not a number
        fine = np.round(np.nan_to_num(statistics - coarse) * FINE) / FINE
        return np.stack([coarse.sum(0), fine.sum(0)], axis=1)


def ratio(numerator: Numbers, denominator: Numbers, *, empty: float = float("nan")) -> Numbers:
    """Return numerator / denominator, or `empty` where the denominator is 0; of numbers or arrays
    [...].
    """
    numerator = np.asarray(numerator, dtype=np.float64)
    denominator = np.asarray(denominator, dtype=np.float64)
    quotient = numerator / np.where(denominator, denominator, 1)
    return np.where(denominator, quotient, empty)[()]
