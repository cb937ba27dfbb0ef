"""A metric of one run, kept per dialogue so that dialogues can be left out, resampled and
swapped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Floats = NDArray[np.float64]
Differences = Callable[[Floats], list[Floats]]
"""From swaps [R, D], 1 where two runs swap dialogue d, to the differences [R] of each pair of runs
after them.
"""
CELLS = 2**21
"""Numbers of a dense block of counts: 16 MiB."""


class RunMetric(Protocol):
    """A metric of one run, as a function of weighted dialogues; D is the number of dialogues."""

    cost: ClassVar[int]
    """Random swaps are fewer by this factor."""
    dialogues: int

    def value(self) -> float:
        """Return the metric over all dialogues."""
        ...

    def leave_one_out(self) -> Floats:
        """Return the metric without dialogue d, for every d [D]."""
        ...

    def shares_sums(self, other: RunMetric) -> bool:
        """Return whether both metrics are functions of the same sums over dialogues, so that
        `swaps` computes one.
        """
        ...

    @staticmethod
    def swaps(pairs: Sequence[tuple[Any, Any]]) -> Differences:
        """Return the differences of pairs of runs after swaps, for metrics that share their
        sums.
        """
        ...

    def restrict(self, examples: NDArray[np.bool_]) -> Self:
        """Return the metric over some examples [N]; dialogues without one no longer count."""
        ...


class Sums:
    """Metric that is a function of sums of statistics over responses, such as a mean, bits per byte
    or BLEU.

    Args:
        statistics: Statistics of each response [N, S].
        dialogues: Number of the dialogue of each response [N].
        value: Return the metric for S sums, numbers or arrays [...]; NaN where it is undefined.
    """

    cost: ClassVar[int] = 1

    def __init__(
        self, statistics: Floats, dialogues: NDArray[np.int64], value: Callable[..., Any]
    ) -> None:
        self.statistics = np.asarray(statistics, dtype=np.float64).reshape(len(dialogues), -1)
        self.labels = np.asarray(dialogues)
        self.metric = value
        self.totals = np.asarray(_members(self.labels) @ self.statistics)  # [D, S]
        self.sums = self.totals.sum(0)
        self.dialogues = len(self.totals)

    def value(self) -> float:
        """Return the metric over all dialogues."""
        return float(self.metric(*self.sums))

    def leave_one_out(self) -> Floats:
        """Return the metric without dialogue d, for every d [D]."""
        return self._values(self.sums - self.totals)

    @staticmethod
    def resamples(runs: Sequence[Sums]) -> Callable[[Floats], list[Floats]]:
        """Return a function from weights [R, D] to the metric of each run in which dialogue d
        counts that often [R].
        """
        multiply = stacked([run.totals for run in runs])
        return lambda weights: [
            run._values(sums) for run, sums in zip(runs, multiply(weights), strict=True)
        ]

    def shares_sums(self, other: RunMetric) -> bool:
        """Return whether the other metric also is a function of sums of statistics: all are summed
        in one product.
        """
        return isinstance(other, Sums)

    @staticmethod
    def swaps(pairs: Sequence[tuple[Sums, Sums]]) -> Differences:
        """Return the differences of pairs of runs after swaps."""
        multiply = stacked([b.totals - a.totals for a, b in pairs])
        return lambda swapped: [
            a._values(a.sums + change) - b._values(b.sums - change)
            for (a, b), change in zip(pairs, multiply(swapped), strict=True)
        ]

    def restrict(self, examples: NDArray[np.bool_]) -> Self:
        """Return the metric over some examples [N]."""
        return type(self)(self.statistics[examples], self.labels[examples], self.metric)

    def _values(self, sums: Floats) -> Floats:
        return np.asarray(self.metric(*sums.T), dtype=np.float64)


class Counts:
    """Metric that is a function of item counts over all responses, such as distinct-n or entropy.

    It has no bootstrap: a resample repeats dialogues, which lowers distinct-n, and its intervals
        cover too rarely.

    Args:
        items: Items of all responses as numbers, one response after the other [M]; alike in all
            runs.
        sizes: Number of items of each response [N].
        dialogues: Number of the dialogue of each response [N].
        value: Return the metrics [...] for counts [..., T]; items of count 0 change nothing.
    """

    cost: ClassVar[int] = 5

    def __init__(
        self,
        items: NDArray[np.int64],
        sizes: NDArray[np.int64],
        dialogues: NDArray[np.int64],
        value: Callable[[Floats], Any],
    ) -> None:
        self.items = items
        self.sizes = sizes
        self.labels = np.asarray(dialogues)
        self.metric = value
        self.types, columns = np.unique(items, return_inverse=True)
        ends = np.concatenate([[0], np.cumsum(sizes)])
        counts = csr_array(
            (np.ones(len(items)), columns, ends), shape=(len(sizes), len(self.types))
        )
        self.totals = csr_array(_members(self.labels) @ counts)  # [D, T]
        self.sums = np.asarray(self.totals.sum(0), dtype=np.float64)
        self.dialogues = self.totals.shape[0]

    def value(self) -> float:
        """Return the metric over all dialogues."""
        return float(self.metric(self.sums))

    def leave_one_out(self) -> Floats:
        """Return the metric without dialogue d, for every d [D]."""
        blocks = _blocks(self.dialogues, len(self.types))
        return np.concatenate(
            [self.metric(self.sums - self.totals[rows].toarray()) for rows in blocks]
        )

    def shares_sums(self, other: RunMetric) -> bool:
        """Return whether the other metric counts the same items."""
        return (
            isinstance(other, Counts)
            and np.array_equal(self.items, other.items)
            and np.array_equal(self.sizes, other.sizes)
        )

    @staticmethod
    def swaps(pairs: Sequence[tuple[Counts, Counts]]) -> Differences:
        """Return the differences of pairs of runs after swaps."""
        a, b = pairs[0]
        types = np.union1d(a.types, b.types)
        counts = a._columns(types)
        other_counts = b._columns(types)
        change = csr_array(other_counts - counts)
        sums = counts.sum(0)
        other_sums = other_counts.sum(0)

        def differences(swapped: Floats) -> list[Floats]:
            blocks = []
            for rows in _blocks(len(swapped), len(types)):
                moved = np.ascontiguousarray(swapped[rows] @ change)  # rows are summed
                after = sums + moved
                other_after = other_sums - moved
                blocks.append(
                    [one.metric(after) - other.metric(other_after) for one, other in pairs]
                )
            return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]

        return differences

    def restrict(self, examples: NDArray[np.bool_]) -> Self:
        """Return the metric over some examples [N]."""
        items = self.items[np.repeat(examples, self.sizes)]
        return type(self)(items, self.sizes[examples], self.labels[examples], self.metric)

    def _columns(self, types: NDArray[np.int64]) -> csr_array:
        """Return the counts with a column for each of these types, which include all own."""
        columns = np.searchsorted(types, self.types)[self.totals.indices]
        return csr_array(
            (self.totals.data, columns, self.totals.indptr), shape=(self.dialogues, len(types))
        )


def stacked(matrices: Sequence[Floats]) -> Callable[[Floats], list[Floats]]:
    """Return a function from rows [R, D] to their product with each matrix [D, S], computed as one
    product.
    """
    joined = np.concatenate(matrices, axis=1)
    ends = np.cumsum([matrix.shape[1] for matrix in matrices])
    return lambda rows: np.split(rows @ joined, ends[:-1], axis=1)


def _members(labels: NDArray[np.int64]) -> csr_array:
    """Return the responses of each dialogue [D, N] as 0 and 1."""
    names, rows = np.unique(labels, return_inverse=True)
    return csr_array(
        (np.ones(len(labels)), (rows, np.arange(len(labels)))), shape=(len(names), len(labels))
    )


def _blocks(rows: int, types: int) -> Iterator[slice]:
    """Yield slices of rows whose dense counts have at most `CELLS` numbers."""
    step = max(1, CELLS // max(1, types))
    return (slice(start, start + step) for start in range(0, rows, step))
