"""Which examples are a batch, and which batch comes when."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dialog.data.store.length_classes import LengthClasses
from dialog.data.store.shuffle import Shuffle
from dialog.errors import UserError

Integers = NDArray[np.int64]
AHEAD = 64
"""Batches whose rows are looked up at a time."""


class Plan:
    """Rows of each batch of a rank in an epoch: a pure function of its arguments.

    Over all ranks every row occurs once. All ranks get the same number of batches, which no epoch changes, and whole
    steps of them: where the number of batches is no multiple of `world` x `accumulate`, the largest are split. Which
    batches a step has depends on this product alone: two ranks read in a step what one reads that accumulates two. A
    batch of B rows has B (longest source + longest target) <= `budget`, or is one row that is longer alone.

    Classes of like lengths are put in order: by the source into bands, within a band by the target. Rows of a class
    change places from epoch to epoch, and so do batches, but the cuts between batches depend on the classes alone, and
    no order of all rows is ever made: time and memory grow with the batches. The batches of a step are of like cost.

    Args:
        classes: The rows by their lengths.
        budget: The most tokens of a batch with its padding.
        seed: With `epoch`, chooses the order where `shuffle` is set.
        epoch: See `seed`.
        shuffle: Whether rows and batches change places.
        rank: Whose batches, of `world`.
        world: How many share the rows.
        accumulate: Batches of each rank in a step.

    Raises:
        UserError: fewer examples than batches of a step, or examples so long that no split gives every rank as many
            batches.
    """

    def __init__(
        self,
        classes: LengthClasses,
        *,
        budget: int,
        seed: int = 0,
        epoch: int = 0,
        shuffle: bool = False,
        rank: int = 0,
        world: int = 1,
        accumulate: int = 1,
    ) -> None:
        group = world * accumulate
        rows = int(classes.counts.sum())
        if rows < group:
            shared = f"{world} processes" if accumulate == 1 else f"{world} x {accumulate} batches of a step"
            mend = "trainer.devices" if accumulate == 1 else "trainer.accumulate_grad_batches or trainer.devices"
            raise UserError(f"{rows} examples cannot be shared by {shared}; lower {mend}")
        chosen = _banded(classes, budget=budget)
        self._order = classes.order
        self._counts = classes.counts[chosen]
        self._ends = np.cumsum(self._counts)
        self._places = (np.cumsum(classes.counts) - classes.counts)[chosen]  # of each class, in the order
        sizes, widths = _cuts(classes.sources[chosen], classes.targets[chosen], self._counts, budget=budget)
        starts, sizes, widths = _split(sizes, widths, group=group).T
        if group > 1:  # a half may be narrower than the whole was
            first, last = (np.searchsorted(self._ends, each, side="right") for each in (starts, starts + sizes - 1))
            source, target = (_longest(each[chosen], first, last) for each in (classes.sources, classes.targets))
            widths = source + target
        self.padded = int((sizes * widths).sum())
        """Tokens of all ranks' batches with padding, at most: as if lengths were the rounded ones."""
        steps = len(sizes) // group
        self._shuffle = Shuffle(np.append(self._counts, [steps] * 2), seed=seed, epoch=epoch) if shuffle else None
        step, turn = (self._moved(np.full(steps, len(chosen) + which), np.arange(steps)) for which in range(2))
        by_cost = np.argsort(sizes * widths, kind="stable") if group > 1 else np.arange(len(sizes))
        places = np.add.outer(turn, np.arange(rank, group, world)) % group  # [steps, accumulate]
        mine = by_cost[(step[:, np.newaxis] * group + places).ravel()]
        self._starts, self._sizes, self._costs = starts[mine], sizes[mine], (sizes * widths)[mine]
        self._said = np.append(0, np.cumsum(self._counts * classes.targets[chosen]))  # targets before each class

    def __len__(self) -> int:
        return len(self._starts)

    def heaviest(self) -> tuple[int, int, float]:
        """Positions of the batch that costs most and of the one with the most to say, and the first one's share.

        That is its tokens with padding over those of a batch in the mean. Lengths are taken as their rounded ones.
        """
        ends = np.append(0, self._ends)
        said = np.interp(self._starts + self._sizes, ends, self._said) - np.interp(self._starts, ends, self._said)
        return int(self._costs.argmax()), int(said.argmax()), float(self._costs.max() / self._costs.mean())

    def rows(self, position: int) -> Integers:
        """The rows of the batch at a position."""
        return next(self.batches(position))

    def batches(self, position: int = 0) -> Iterator[Integers]:
        """The rows of each batch from a position on."""
        for first in range(position, len(self), AHEAD):
            sizes = self._sizes[first : first + AHEAD]
            ends = np.cumsum(sizes)
            places = np.repeat(self._starts[first : first + AHEAD] - ends + sizes, sizes) + np.arange(ends[-1])
            yield from np.split(self._rows(places), ends[:-1])

    def _rows(self, places: Integers) -> Integers:
        which = np.searchsorted(self._ends, places, side="right")
        inside = self._moved(which, places - self._ends[which] + self._counts[which])
        rows: Integers = self._order[self._places[which] + inside].astype(np.int64)
        return rows

    def _moved(self, which: Integers, places: Integers) -> Integers:
        return places if self._shuffle is None else self._shuffle(which, places)


def _banded(classes: LengthClasses, *, budget: int) -> Integers:
    """The order of classes for B batches of little padding: by source into 2.5 sqrt(B) bands, then by target.

    Bands hold as many tokens each, but equal sources are in one; every other band runs from long to short targets, so
    that a batch across two bands is alike too.
    """
    tokens = classes.counts * (classes.sources + classes.targets)
    total = int(tokens.sum())
    bands = max(1, round(2.5 * float(np.sqrt(total / budget))))
    lowest = np.searchsorted(classes.sources, classes.sources)
    band = (np.cumsum(tokens) - tokens)[lowest] * bands // total  # by what shorter sources hold
    direction = np.where(band % 2 == 0, 1, -1)
    return np.lexsort((classes.sources, direction * classes.targets, band))


def _cuts(sources: Integers, targets: Integers, counts: Integers, *, budget: int) -> tuple[Integers, Integers]:
    """Rows of each batch, and its longest source and target together: as full as the budget allows.

    But where longer rows of another class would cost more padding than a third of what is free, a batch ends before.
    """
    runs: list[tuple[int, int, int]] = []  # rows, width, batches
    rows = source = target = 0
    for own_source, own_target, count in zip(sources.tolist(), targets.tolist(), counts.tolist(), strict=True):
        own, widest = own_source + own_target, (max(source, own_source), max(target, own_target))
        width, wider = source + target, sum(widest)
        taken = min(count, max(0, budget // wider - rows)) if rows else 0
        if 3 * (rows * (wider - width) + taken * (wider - own)) > budget - rows * width:
            taken = 0
        if taken:
            rows, source, target = rows + taken, *widest
        if left := count - taken:
            runs += [(rows, source + target, 1)] * (rows > 0)
            full = max(1, budget // own)
            whole, rows = divmod(left, full)
            runs.append((full, own, whole))
            source, target = (own_source, own_target) if rows else (0, 0)
    runs += [(rows, source + target, 1)] * (rows > 0)
    sizes, widths, batches = np.array(runs).T
    return np.repeat(sizes, batches), np.repeat(widths, batches)


def _longest(lengths: Integers, first: Integers, last: Integers) -> Integers:
    """The longest of the classes from each first [M] to each last one [M]."""
    longest: Integers = np.maximum.reduceat(np.append(lengths, 0), np.column_stack([first, last + 1]).ravel())[::2]
    return longest


def _split(sizes: Integers, widths: Integers, *, group: int) -> Integers:
    """Start, rows and width of each batch [M, 3]; those with the most rows halved until M is a multiple of `group`."""
    rows, missing = int(sizes.sum()), -len(sizes) % group
    if len(sizes) + missing > rows:
        raise UserError(
            f"data.batch_tokens: {rows} examples in {len(sizes)} batches cannot be shared evenly by the {group} "
            "batches of a step; raise it, or lower trainer.devices or trainer.accumulate_grad_batches"
        )
    batches = np.column_stack([np.cumsum(sizes) - sizes, sizes, widths])
    largest = np.argsort(-sizes, kind="stable")[:missing]  # no others are halved
    heap = [(-size, start, width) for start, size, width in batches[largest].tolist()]
    heapq.heapify(heap)
    for _ in range(missing):
        size, start, width = heapq.heappop(heap)
        half = -size // 2
        heapq.heappush(heap, (-half, start, width))
        heapq.heappush(heap, (size + half, start + half, width))
    halves = np.array([(start, -size, width) for size, start, width in heap], dtype=np.int64).reshape(-1, 3)
    batches = np.concatenate([np.delete(batches, largest, axis=0), halves])
    return batches[np.argsort(batches[:, 0])]
