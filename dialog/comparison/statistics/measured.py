"""A metric of one run, kept per dialogue so that dialogues can be left out, resampled and swapped."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Floats = NDArray[np.float64]
CELLS = 2**21
"""Numbers of a dense block of counts: 16 MiB."""


class Measured(Protocol):
    """A metric of one run, as a function of weighted dialogues; D is the number of dialogues."""

    dialogues: int

    def value(self) -> float:
        """Return the metric over all dialogues."""
        ...

    def leave_one_out(self) -> Floats:
        """Return the metric without dialogue d, for every d [D]."""
        ...

    def resample(self, weights: Floats) -> Floats:
        """Return the metric in which dialogue d counts `weights[r, d]` times [R]."""
        ...

    def swap(self, other: Self, swapped: Floats) -> Floats:
        """Return the differences from another run after the runs swap the dialogues d with `swapped[r, d] = 1` [R]."""
        ...

    def restrict(self, examples: NDArray[np.bool_]) -> Self:
        """Return the metric over some examples [N]; dialogues without one no longer count."""
        ...


class Sums:
    """Metric that is a function of sums of statistics over responses, such as a mean, bits per byte or BLEU.

    Args:
        statistics: Statistics of each response [N, S].
        dialogues: Number of the dialogue of each response [N].
        value: Return the metric for S sums, NaN if it is undefined.
    """

    def __init__(self, statistics: Floats, dialogues: NDArray[np.int64], value: Callable[..., float]) -> None:
        self.statistics = np.asarray(statistics, dtype=np.float64).reshape(len(dialogues), -1)
        self.labels = np.asarray(dialogues)
        self.metric = value
        self.totals = np.asarray(_members(self.labels) @ self.statistics)  # [D, S]
        self.sums = self.totals.sum(0)
        self.dialogues = len(self.totals)

    def value(self) -> float:
        """Return the metric over all dialogues."""
        return float(self.metric(*self.sums.tolist()))

    def leave_one_out(self) -> Floats:
        """Return the metric without dialogue d, for every d [D]."""
        return self._values(self.sums - self.totals)

    def resample(self, weights: Floats) -> Floats:
        """Return the metric in which dialogue d counts `weights[r, d]` times [R]."""
        return self._values(weights @ self.totals)

    def swap(self, other: Self, swapped: Floats) -> Floats:
        """Return the differences from another run after swapping dialogues [R]."""
        change = swapped @ (other.totals - self.totals)
        return self._values(self.sums + change) - other._values(other.sums - change)

    def restrict(self, examples: NDArray[np.bool_]) -> Self:
        """Return the metric over some examples [N]."""
        return type(self)(self.statistics[examples], self.labels[examples], self.metric)

    def _values(self, sums: Floats) -> Floats:
        return np.array([self.metric(*row) for row in sums.tolist()], dtype=np.float64)


class Counts:
    """Metric that is a function of item counts over all responses, such as distinct-n or entropy.

    Args:
        counts: Number of times that each response has each item [N, T], from `count_items`. Runs that are compared
            number their items alike; one may have fewer columns.
        dialogues: Number of the dialogue of each response [N].
        value: Return the metrics [...] for counts [..., T]; items of count 0 change nothing.
    """

    def __init__(self, counts: csr_array, dialogues: NDArray[np.int64], value: Callable[[Floats], Floats]) -> None:
        self.counts = counts
        self.labels = np.asarray(dialogues)
        self.metric = value
        self.totals = csr_array(_members(self.labels) @ counts)  # [D, T]
        self.dialogues = self.totals.shape[0]

    def value(self) -> float:
        """Return the metric over all dialogues."""
        return float(self.metric(np.asarray(self.totals.sum(0), dtype=np.float64)))

    def leave_one_out(self) -> Floats:
        """Return the metric without dialogue d, for every d [D]."""
        used, sums = self._used(self.totals)
        blocks = (self.metric(sums - used[rows].toarray()) for rows in _blocks(self.dialogues, len(sums)))
        return np.concatenate([*blocks])

    def resample(self, weights: Floats) -> Floats:
        """Return the metric in which dialogue d counts `weights[r, d]` times [R]."""
        used, sums = self._used(self.totals)
        return np.concatenate([self.metric(weights[rows] @ used) for rows in _blocks(len(weights), len(sums))])

    def swap(self, other: Self, swapped: Floats) -> Floats:
        """Return the differences from another run after swapping dialogues [R]."""
        types = max(self.totals.shape[1], other.totals.shape[1])
        mine, others = _widen(self.totals, types), _widen(other.totals, types)
        columns = np.flatnonzero((mine.sum(0) > 0) | (others.sum(0) > 0))
        mine, others = mine[:, columns], others[:, columns]
        change, sums, other_sums = csr_array(others - mine), mine.sum(0), others.sum(0)
        differences = []
        for rows in _blocks(len(swapped), len(columns)):
            moved = swapped[rows] @ change
            differences.append(self.metric(sums + moved) - self.metric(other_sums - moved))
        return np.concatenate(differences)

    def restrict(self, examples: NDArray[np.bool_]) -> Self:
        """Return the metric over some examples [N]."""
        return type(self)(csr_array(self.counts[np.flatnonzero(examples)]), self.labels[examples], self.metric)

    def _used(self, totals: csr_array) -> tuple[csr_array, Floats]:
        """Return the columns of items that occur, and their sums."""
        sums = np.asarray(totals.sum(0), dtype=np.float64)
        columns = np.flatnonzero(sums)
        return csr_array(totals[:, columns]), sums[columns]


def count_items(items: Iterable[Iterable[Hashable]], numbers: dict[Hashable, int]) -> csr_array:
    """Count the items of each response [N, T].

    Args:
        items: Items of each response, repeated as often as they occur.
        numbers: Column of each item; new items are added, so pass one dictionary for all runs of a metric.
    """
    columns: list[int] = []
    ends = [0]
    for response in items:
        columns += [numbers.setdefault(item, len(numbers)) for item in response]
        ends.append(len(columns))
    counts = csr_array((np.ones(len(columns)), columns, ends), shape=(len(ends) - 1, len(numbers)))
    counts.sum_duplicates()
    return counts


def _members(labels: NDArray[np.int64]) -> csr_array:
    """Return the responses of each dialogue [D, N] as 0 and 1."""
    names, rows = np.unique(labels, return_inverse=True)
    return csr_array((np.ones(len(labels)), (rows, np.arange(len(labels)))), shape=(len(names), len(labels)))


def _widen(counts: csr_array, types: int) -> csr_array:
    return csr_array((counts.data, counts.indices, counts.indptr), shape=(counts.shape[0], types))


def _blocks(rows: int, types: int) -> Iterator[slice]:
    """Yield slices of rows whose dense counts have at most `CELLS` numbers."""
    step = max(1, CELLS // max(1, types))
    return (slice(start, start + step) for start in range(0, rows, step))
