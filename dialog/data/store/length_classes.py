"""Examples sorted by their lengths, in classes of like ones.

A length is rounded up to a number of four binary digits and zeros: 1, 2, ..., 16, 18, 20, ..., 32, 36, 40, ... An
example's class is its rounded source length and its rounded target length, so a split of any size has some thousand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dialog.data.store.manifest import ARRAYS, array_file, rows_dtype

Integers = NDArray[np.int64]
CHUNK = 1 << 20
"""Examples that are sorted at a time."""
CODES = 256
"""More than the rounded lengths below 2^31."""


class LengthClasses(NamedTuple):
    """The rows of a split, class by class, in each from the first to the last."""

    sources: Integers  # [C], rounded up
    targets: Integers  # [C], rounded up, without <s>
    counts: Integers  # [C], rows of the class
    order: NDArray[Any]  # [N], the rows


class OnDisk:
    """An array in a file, mapped anew at each look: what was looked at does not stay in memory."""

    def __init__(self, path: Path, dtype: str, shape: tuple[int, ...]) -> None:
        self.path, self.dtype, self.shape = path, dtype, shape

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        return np.array(np.memmap(self.path, dtype=self.dtype, mode="r", shape=self.shape)[rows])

    def __setitem__(self, rows: Integers, values: Integers) -> None:
        np.memmap(self.path, dtype=self.dtype, mode="r+", shape=self.shape)[rows] = values


def sort_by_length(lengths: NDArray[Any] | OnDisk, order: NDArray[Any] | OnDisk) -> tuple[Integers, Integers, Integers]:
    """A counting sort of rows by their lengths [N, 2] into `order` [N], chunk by chunk; sources, targets and counts."""
    chunks = range(0, len(lengths), CHUNK)
    counts = np.zeros(CODES * CODES, dtype=np.int64)
    for start in chunks:
        counts += np.bincount(_codes(lengths[start : start + CHUNK]), minlength=len(counts))
    free = np.cumsum(counts) - counts
    for start in chunks:
        codes = _codes(lengths[start : start + CHUNK])
        held = np.bincount(codes, minlength=len(counts))
        rows = np.argsort(codes, kind="stable")
        first = free - np.cumsum(held) + held  # place of a class's first row, less its index in the chunk
        order[first[codes[rows]] + np.arange(len(rows))] = rows + start
        free += held
    found = np.flatnonzero(counts)
    return _decoded(found // CODES), _decoded(found % CODES), counts[found]


def by_length(sources: Integers, targets: Integers) -> LengthClasses:
    """The classes of lengths in memory."""
    order = np.empty(len(sources), dtype=np.int64)
    return LengthClasses(*sort_by_length(np.column_stack([sources, targets]), order), order)


def write_classes(folder: Path, split: str) -> None:
    """Sort the examples of a split whose lengths are written; the memory needed does not grow with it."""
    path, kind = array_file(folder, split, "lengths"), np.dtype(ARRAYS["lengths"])
    lengths = OnDisk(path, kind.str, (path.stat().st_size // (2 * kind.itemsize), 2))
    order = OnDisk(array_file(folder, split, "order"), rows_dtype(len(lengths)), (len(lengths),))
    np.memmap(order.path, dtype=order.dtype, mode="w+", shape=order.shape)  # makes the file
    table = np.column_stack(sort_by_length(lengths, order)).astype("<i8")
    table.tofile(array_file(folder, split, "classes"))


def read_classes(folder: Path, split: str) -> LengthClasses:
    """The classes of a split that `write_classes` has sorted; the order stays on disk."""
    table = np.fromfile(array_file(folder, split, "classes"), dtype="<i8").reshape(-1, 3)
    dtype = rows_dtype(int(table[:, 2].sum()))
    order = np.memmap(array_file(folder, split, "order"), dtype=dtype, mode="r").view(np.ndarray)
    return LengthClasses(table[:, 0], table[:, 1], table[:, 2], order)


def _codes(lengths: NDArray[Any]) -> NDArray[np.uint16]:
    """Numbers of the classes of lengths [N, 2], in the order of the sources and then of the targets."""
    table = _coded(np.arange(int(lengths.max()) + 1))
    codes: NDArray[np.uint16] = table[lengths[:, 0]] * np.uint16(CODES) + table[lengths[:, 1]]
    return codes


def _coded(lengths: Integers) -> NDArray[np.uint16]:
    """The rank of rounded lengths: 8 e + ceil(length / 2^e), with e the binary digits beyond four."""
    beyond = np.maximum(np.frexp(lengths)[1].astype(np.int64) - 4, 0)
    codes: Integers = 8 * beyond - (-lengths >> beyond)
    return codes.astype(np.uint16)


def _decoded(codes: Integers) -> Integers:
    """The rounded lengths of ranks."""
    beyond = np.maximum(codes // 8 - 1, 0)
    lengths: Integers = (codes - 8 * beyond) << beyond
    return lengths
