"""Length classes: examples sorted by rounded source and target length.

Lengths are rounded up to four significant binary digits: 1, 2, ..., 16, 18, 20, ..., 32, 36, 40,
... A class is a pair of a rounded source length and a rounded target length; a split of any size
has at most a few thousand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dialog.data.store.arrays import ArrayType, IntegerArray, array_file, narrowest
from dialog.data.store.manifest import Manifest, stored_array

Integers = NDArray[np.int64]
CHUNK = 1 << 20
"""Examples that are sorted in one step."""
LENGTHS = "lengths"
"""[N, 2] lengths of source and target without <s>, both truncated; removed after the sort."""
CODES = 256
"""More than the number of rounded lengths below 2^31."""
STATIC_SOURCE = 16
"""Static lengths of sources are multiples of it."""
STATIC_TARGET = 8
"""The same for targets, without <s>."""


class LengthClasses(NamedTuple):
    """The rows of a split by class, ascending within a class."""

    sources: Integers  # [C], rounded up
    targets: Integers  # [C], rounded up, without <s>
    counts: Integers  # [C], rows per class
    order: IntegerArray  # [N], the rows


GROUPINGS = ("both", "source", "none")
"""Lengths that the examples of a batch share: source and target, the source's only, or none."""


def grouped(classes: LengthClasses, grouping: str) -> LengthClasses:
    """Merge the classes of equal source length, or all classes, into classes of their longest
    lengths.
    """
    if grouping == "both":
        return classes
    borders = (
        np.flatnonzero(np.diff(classes.sources)) + 1
        if grouping == "source"
        else np.empty(0, dtype=np.int64)
    )
    starts = np.append(0, borders)
    sources, targets = (
        np.maximum.reduceat(lengths, starts) for lengths in (classes.sources, classes.targets)
    )
    return LengthClasses(sources, targets, np.add.reduceat(classes.counts, starts), classes.order)


class OnDisk:
    """An array in a file, mapped for each access only, so that no page stays in memory."""

    def __init__(self, path: Path, dtype: str, shape: tuple[int, ...]) -> None:
        self.path = path
        self.dtype = dtype
        self.shape = shape

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        return np.array(np.memmap(self.path, dtype=self.dtype, mode="r", shape=self.shape)[rows])

    def __setitem__(self, rows: Integers, values: Integers) -> None:
        np.memmap(self.path, dtype=self.dtype, mode="r+", shape=self.shape)[rows] = values


def sort_by_length(
    lengths: NDArray[Any] | OnDisk, order: NDArray[Any] | OnDisk
) -> tuple[Integers, Integers, Integers]:
    """Counting-sort rows by lengths [N, 2] into `order` [N] in chunks; return sources, targets and
    counts [C].
    """
    chunks = range(0, len(lengths), CHUNK)
    counts = np.zeros(CODES * CODES, dtype=np.int64)
    for start in chunks:
        counts += np.bincount(_codes(lengths[start : start + CHUNK]), minlength=len(counts))
    free = np.cumsum(counts) - counts
    for start in chunks:
        codes = _codes(lengths[start : start + CHUNK])
        chunk_counts = np.bincount(codes, minlength=len(counts))
        rows = np.argsort(codes, kind="stable")
        # place of a class's first row - its index in the chunk
        first = free - np.cumsum(chunk_counts) + chunk_counts
        order[first[codes[rows]] + np.arange(len(rows))] = rows + start
        free += chunk_counts
    classes = np.flatnonzero(counts)
    return _decode(classes // CODES), _decode(classes % CODES), counts[classes]


def by_length(sources: Integers, targets: Integers) -> LengthClasses:
    """Return the classes of examples with these lengths [N], sorted in memory."""
    order = np.empty(len(sources), dtype=np.int64)
    return LengthClasses(*sort_by_length(np.column_stack([sources, targets]), order), order)


def write_classes(folder: Path, split: str, lengths: ArrayType) -> dict[str, ArrayType]:
    """Sort a split by the lengths in its folder; write the order and the classes, and return their
    types. Memory does not grow with the split.
    """
    rows = lengths.size // 2
    pairs = OnDisk(array_file(folder, split, LENGTHS), lengths.type, (rows, 2))
    kind = ArrayType(narrowest(rows), rows)
    order = OnDisk(array_file(folder, split, "order"), kind.type, (rows,))
    np.memmap(order.path, dtype=order.dtype, mode="w+", shape=order.shape)  # creates the file
    table = np.column_stack(sort_by_length(pairs, order)).astype("<u8")
    table.tofile(array_file(folder, split, "classes"))
    return {"order": kind, "classes": ArrayType("<u8", table.size)}


def read_classes(folder: Path, manifest: Manifest, split: str) -> LengthClasses:
    """Return the classes that `write_classes` wrote; the order stays on disk."""
    table = stored_array(folder, manifest, split, "classes")[:].astype(np.int64).reshape(-1, 3)
    order = stored_array(folder, manifest, split, "order")
    return LengthClasses(table[:, 0], table[:, 1], table[:, 2], order)


def static_classes(classes: LengthClasses) -> LengthClasses:
    """Return the rows in classes of static lengths, of which there are few; several may be equal.

    A plan gives every batch of equal lengths the same number of rows, except where a class ends.
    """
    return classes._replace(
        sources=_multiples(classes.sources, STATIC_SOURCE),
        targets=_multiples(classes.targets, STATIC_TARGET),
    )


def static_length(length: int, multiple: int) -> int:
    """Round a length up to four significant binary digits, then to a multiple."""
    return int(_multiples(np.array([length]), multiple)[0])


def _multiples(lengths: Integers, multiple: int) -> Integers:
    rounded = _decode(_encode(lengths).astype(np.int64))
    multiples: Integers = -(-rounded // multiple) * multiple
    return multiples


def _codes(lengths: NDArray[Any]) -> NDArray[np.uint16]:
    """Return the class numbers of lengths [N, 2], ordered by source, then target."""
    table = _encode(np.arange(int(lengths.max()) + 1))
    codes: NDArray[np.uint16] = table[lengths[:, 0]] * np.uint16(CODES) + table[lengths[:, 1]]
    return codes


def _encode(lengths: Integers) -> NDArray[np.uint16]:
    """Return the rank of rounded lengths: 8 e + ceil(length / 2^e), where e is the number of digits
    beyond four.
    """
    beyond = np.maximum(np.frexp(lengths)[1].astype(np.int64) - 4, 0)
    codes: Integers = 8 * beyond - (-lengths >> beyond)
    return codes.astype(np.uint16)


def _decode(codes: Integers) -> Integers:
    """Return the rounded lengths of ranks."""
    beyond = np.maximum(codes // 8 - 1, 0)
    lengths: Integers = (codes - 8 * beyond) << beyond
    return lengths
