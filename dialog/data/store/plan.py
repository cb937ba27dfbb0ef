"""The batch plan: the size, rows and order of the batches of an epoch.

The number of rows of a batch is decided in `_divide`: as many as fit in the budget of tokens,
`data.batch_tokens`; or in `_divide_evenly`, `data.batch_examples`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dialog.data.store.length_classes import LengthClasses, by_length
from dialog.errors import UserError

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]
ROUNDS = 6
"""Rounds of a `Shuffle`."""
AHEAD = 64
"""Batches whose rows are looked up in one step."""


class Plan:
    """The rows of each batch of a rank in an epoch: a pure function of its arguments.

    Every row occurs once over all ranks. A batch of B rows has B (longest source + longest target)
    <= `budget`; a row that exceeds the budget alone is a batch. With `examples`, every batch but
    the last one has this number of rows. All ranks have the same number of batches in every epoch,
    a multiple of `accumulate`: the largest batches are split until the total is a multiple of
    `world` x `accumulate`. The batches of a step depend on this product only: one rank that
    accumulates two batches reads what two ranks read.

    Length classes are ordered by source length into bands, and by target length within a band; the
    boundaries between batches follow from the classes alone. Epochs permute the rows within a
    class, and the steps. Permutations are computed element by element, so time and memory grow with
    the number of batches, not of rows. The batches of a step have similar cost.

    Args:
        classes: The rows by length.
        budget: Maximal tokens of a batch, with padding.
        examples: Rows of a batch, in place of the budget.
        seed: Seeds the order if `shuffle` is set, together with `epoch`.
        epoch: See `seed`.
        shuffle: Permute rows and steps.
        rank: The rank of the process.
        world: The world size.
        accumulate: Batches of each rank per optimizer step.

    Raises:
        UserError: fewer examples than batches per step, or too few to give every rank the same
            number of batches.
    """

    def __init__(
        self,
        classes: LengthClasses,
        *,
        budget: int,
        examples: int | None = None,
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
            batches = (
                f"{world} processes"
                if accumulate == 1
                else f"{world} x {accumulate} batches per step"
            )
            keys = (
                "trainer.devices"
                if accumulate == 1
                else "trainer.accumulate_grad_batches or trainer.devices"
            )
            raise UserError(f"{rows} examples are too few for {batches}; lower {keys}")
        if examples is not None:
            tokens = int((classes.counts * (classes.sources + classes.targets)).sum())
            budget = max(1, round(examples * tokens / rows))  # of a mean batch
        class_order = _bands(classes, budget=budget)
        self._order = classes.order
        self._counts = classes.counts[class_order]
        self._ends = np.cumsum(self._counts)
        # of each class in `order`
        self._places = (np.cumsum(classes.counts) - classes.counts)[class_order]
        sources = classes.sources[class_order]
        targets = classes.targets[class_order]
        sizes, widths = (
            _divide(sources, targets, self._counts, budget=budget)
            if examples is None
            else _divide_evenly(sources, targets, self._ends, examples)
        )
        starts, sizes, widths = _split(sizes, widths, group=group).T
        if group > 1:  # half a batch may be narrower than the whole batch
            first, last = (
                np.searchsorted(self._ends, rows, side="right")
                for rows in (starts, starts + sizes - 1)
            )
            widths = _longest(sources, first, last) + _longest(targets, first, last)
        self.padded = int((sizes * widths).sum())
        """Upper bound of the tokens of all ranks' batches, with padding: computed from rounded
        lengths.
        """
        steps = len(sizes) // group
        self._shuffle = (
            Shuffle(np.append(self._counts, [steps] * 2), seed=seed, epoch=epoch)
            if shuffle
            else None
        )
        step, shift = (
            self._permute(np.full(steps, len(sources) + which), np.arange(steps))
            for which in range(2)
        )
        by_cost = np.argsort(sizes * widths, kind="stable") if group > 1 else np.arange(len(sizes))
        places = np.add.outer(shift, np.arange(rank, group, world)) % group  # [steps, accumulate]
        own = by_cost[(step[:, np.newaxis] * group + places).ravel()]
        self._starts = starts[own]
        self._sizes = sizes[own]
        self._costs = (sizes * widths)[own]
        # target tokens before each class
        self._targets = np.append(0, np.cumsum(self._counts * targets))

    def __len__(self) -> int:
        return len(self._starts)

    def heaviest(self) -> tuple[int, int, float]:
        """Return the positions of the batches with the most tokens and the most target tokens, and
        a relative cost.

        That is the cost of the first batch over the mean cost, in tokens with padding. Lengths are
        the rounded ones.
        """
        ends = np.append(0, self._ends)
        stops = self._starts + self._sizes
        target_tokens = np.interp(stops, ends, self._targets) - np.interp(
            self._starts, ends, self._targets
        )
        relative_cost = float(self._costs.max() / self._costs.mean())
        return int(self._costs.argmax()), int(target_tokens.argmax()), relative_cost

    def rows(self, position: int) -> Integers:
        """Return the rows of the batch at a position."""
        return next(self.batches(position))

    def batches(self, position: int = 0) -> Iterator[Integers]:
        """Yield the rows of each batch, starting at a position."""
        for first in range(position, len(self), AHEAD):
            sizes = self._sizes[first : first + AHEAD]
            ends = np.cumsum(sizes)
            places = np.repeat(
                self._starts[first : first + AHEAD] - ends + sizes, sizes
            ) + np.arange(ends[-1])
            yield from np.split(self._rows(places), ends[:-1])

    def _rows(self, places: Integers) -> Integers:
        which = np.searchsorted(self._ends, places, side="right")
        inside = self._permute(which, places - self._ends[which] + self._counts[which])
        rows: Integers = self._order[self._places[which] + inside].astype(np.int64)
        return rows

    def _permute(self, which: Integers, places: Integers) -> Integers:
        return places if self._shuffle is None else self._shuffle(which, places)


def _bands(classes: LengthClasses, *, budget: int) -> Integers:
    """Return the order of classes in which B batches have little padding: 2.5 sqrt(B) bands by
    source, then by target.

    Bands hold equal numbers of tokens, but sources of equal length are in one band. Every other
    band runs from long to short targets, so that a batch across two bands has similar lengths.
    """
    tokens = classes.counts * (classes.sources + classes.targets)
    total = int(tokens.sum())
    bands = max(1, round(2.5 * float(np.sqrt(total / budget))))
    lowest = np.searchsorted(classes.sources, classes.sources)
    band = (np.cumsum(tokens) - tokens)[lowest] * bands // total  # by the tokens of shorter sources
    direction = np.where(band % 2 == 0, 1, -1)
    return np.lexsort((classes.sources, direction * classes.targets, band))


def _divide(
    sources: Integers, targets: Integers, counts: Integers, *, budget: int
) -> tuple[Integers, Integers]:
    """Divide classes into batches as full as the budget allows; return the rows and width of each
    batch [M].

    The width is longest source + longest target. A batch ends before a class of longer rows if
    their padding would cost more than a third of its free tokens.
    """
    runs: list[tuple[int, int, int]] = []  # rows, width, batches
    rows = source = target = 0
    for own_source, own_target, count in zip(
        sources.tolist(), targets.tolist(), counts.tolist(), strict=True
    ):
        own = own_source + own_target
        widest = (max(source, own_source), max(target, own_target))
        width = source + target
        wider = sum(widest)
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


def _divide_evenly(
    sources: Integers, targets: Integers, ends: Integers, examples: int
) -> tuple[Integers, Integers]:
    """Divide classes with these ends into batches of `examples` rows; return the rows and width of
    each batch [M].
    """
    starts = np.arange(0, ends[-1], examples)
    stops = np.minimum(starts + examples, ends[-1])
    first, last = (np.searchsorted(ends, rows, side="right") for rows in (starts, stops - 1))
    return stops - starts, _longest(sources, first, last) + _longest(targets, first, last)


def _longest(lengths: Integers, first: Integers, last: Integers) -> Integers:
    """Return the maximal length of the classes from first [M] to last [M], both included."""
    longest: Integers = np.maximum.reduceat(
        np.append(lengths, 0), np.column_stack([first, last + 1]).ravel()
    )[::2]
    return longest


def _split(sizes: Integers, widths: Integers, *, group: int) -> Integers:
    """Return start, rows and width of each batch [M, 3]; halve the largest until M is a multiple of
    `group`.
    """
    rows = int(sizes.sum())
    missing = -len(sizes) % group
    if len(sizes) + missing > rows:
        raise UserError(
            f"data.batch_tokens: {rows} examples in {len(sizes)} batches cannot be divided into"
            f" steps of {group} batches each; raise it, or lower trainer.devices or"
            " trainer.accumulate_grad_batches"
        )
    batches = np.column_stack([np.cumsum(sizes) - sizes, sizes, widths])
    largest = np.argsort(-sizes, kind="stable")[:missing]  # only these can be halved
    heap = [(-size, start, width) for start, size, width in batches[largest].tolist()]
    heapq.heapify(heap)
    for _ in range(missing):
        size, start, width = heapq.heappop(heap)
        half = -size // 2
        heapq.heappush(heap, (-half, start, width))
        heapq.heappush(heap, (size + half, start + half, width))
    halves = np.array(
        [(start, -size, width) for size, start, width in heap], dtype=np.int64
    ).reshape(-1, 3)
    batches = np.concatenate([np.delete(batches, largest, axis=0), halves])
    return batches[np.argsort(batches[:, 0])]


def pair_batches(
    pairs: Sequence[tuple[list[int], list[int]]], budget: int
) -> Iterator[NDArray[np.int64]]:
    """Yield the places [B] of the pairs of each batch: of similar length, at most ``budget`` padded
    tokens.

    A decoder reads all target ids but the last, so a target counts without it.
    """
    sources, targets = (np.array([len(ids) for ids in side]) for side in zip(*pairs, strict=True))
    return Plan(by_length(sources, targets - 1), budget=budget).batches()


# ------------------------------------------------------------------ permutations


class Shuffle:
    """A pseudo-random permutation of range(n) for each of several sizes n: a pure function of its
    arguments. It is computed element by element, so that none is held in memory.

    Each of six rounds is a bijection of the numbers of b binary digits, with b the digits of n - 1:

        x <- (x * odd + added) mod 2^b;   x <- x xor (x >> ceil(b / 2))

    with words `odd` and `added` drawn for each size and round. A result of n or more passes the
    rounds again until it is below n (cycle walking; Black and Rogaway 2002, section 3): less than
    two passes on average. The arithmetic is integer, hence equal on every machine.

    Args:
        sizes: The n of each permutation [C], at least 1.
        seed: Seeds the permutations, together with `epoch`.
        epoch: See `seed`.
    """

    def __init__(self, sizes: Integers, *, seed: int, epoch: int) -> None:
        self._sizes = sizes.astype(np.uint64)
        digits = np.array([int(size - 1).bit_length() for size in sizes.tolist()], dtype=np.uint64)
        one = np.uint64(1)
        self._masks = (one << digits) - one
        self._shifts = (digits + one) >> one
        words = (
            np.random.PCG64([seed, epoch])
            .random_raw(2 * ROUNDS * len(sizes))
            .reshape(ROUNDS, 2, -1)
        )
        words[:, 0] |= one
        self._words: Words = words

    def __call__(self, which: Integers, places: Integers) -> Integers:
        """Return element `places` [K] of the permutations `which` [K]."""
        numbers = self._apply_rounds(which, places.astype(np.uint64))
        outside = np.flatnonzero(numbers >= self._sizes[which])
        while len(outside):
            numbers[outside] = again = self._apply_rounds(which[outside], numbers[outside])
            outside = outside[again >= self._sizes[which[outside]]]
        return numbers.astype(np.int64)

    def _apply_rounds(self, which: Integers, numbers: Words) -> Words:
        masks = self._masks[which]
        shifts = self._shifts[which]
        odd_added: NDArray[Any]
        for odd_added in self._words:
            odd, added = odd_added[:, which]
            numbers = (numbers * odd + added) & masks
            numbers ^= numbers >> shifts
        return numbers
