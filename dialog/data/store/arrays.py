"""Integers in files, in the narrowest type that holds them; blocks are hashed before they are read.

An ascending array, such as the start of each line, is two files: the first of every `GROUP` values,
and the distance of each value from it.
"""

from __future__ import annotations

import os
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dialog.errors import UserError

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
BLOCK = 1 << 22
"""Bytes of a file that are hashed together."""
GROUP = 128
"""Values of an ascending array that share a base."""
COPIED = 1 << 20
"""Values that are copied in one step when a file gets a wider type."""
ZEROS = ""
"""Type of an array of zeros, whose file is empty."""
TYPES = (ZEROS, "<u1", "<u2", "<u4", "<u8")
"""Types of the values of a file, little-endian, from narrow to wide."""


ARRAY_SUFFIX = ".bin"


class ArrayType(NamedTuple):
    """Type of the values of a file, a member of `TYPES`, and their number."""

    type: str
    size: int


class IntegerArray(Protocol):
    """Integers that are read by place: in memory or in files."""

    def __len__(self) -> int: ...

    def __getitem__(self, places: Any, /) -> NDArray[Any]:
        """Return the values at a slice or an array of places, none of them negative."""


def array_file(folder: Path, split: str, array: str) -> Path:
    """Return the path of an array of a split."""
    return folder / f"{split}.{array}{ARRAY_SUFFIX}"


def block_hashes(path: Path) -> list[str]:
    """Return the SHA-256 of each `BLOCK` of a file in hexadecimal."""
    hashes = []
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            hashes.append(sha256(block).hexdigest())
    return hashes


def narrowest(largest: int) -> str:
    """Return the narrowest type for integers from 0 to `largest`."""
    if largest == 0:
        return ZEROS
    return next(kind for kind in TYPES[1:] if largest <= np.iinfo(kind).max)


def read_array(file: BinaryIO, kind: ArrayType) -> NDArray[Any]:
    """Read the next values of a file, without a check."""
    return np.fromfile(file, kind.type, kind.size) if kind.type else np.zeros(kind.size, np.uint8)


# ------------------------------------------------------------------ reading


class StoredArray:
    """Integers in a file, mapped into memory; a block is checked before its first use in a process.

    Args:
        path: The file.
        kind: Type and number of the values.
        hashes: The `block_hashes` of the file as it was written.
    """

    def __init__(self, path: Path, kind: ArrayType, hashes: list[str]) -> None:
        self._path = path
        self._hashes = hashes
        width = np.dtype(kind.type).itemsize if kind.type else 0
        if width * kind.size == 0:
            self._values: NDArray[Any] = np.broadcast_to(np.uint8(0), kind.size)
            self._unchecked = np.zeros(0, dtype=bool)
            return
        mapped = np.memmap(path, dtype=kind.type, mode="r", shape=(kind.size,))
        self._values = mapped.view(np.ndarray)  # slicing a memmap is ten times slower
        self._per_block = BLOCK // width
        state = path.stat()
        identity = (state.st_ino, state.st_size, state.st_mtime_ns)
        self._unchecked = _unchecked_blocks(path.resolve(), identity, len(hashes))

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, places: Any, /) -> NDArray[Any]:
        """Return the values at a slice or an array of places.

        Raises:
            UserError: a block that holds some of them is damaged.
        """
        if self._unchecked.any():
            self._check(places)
        values: NDArray[Any] = self._values[places]
        return values

    def take(self, places: Integers) -> NDArray[Any]:
        """Return the values at these places; beyond the end, the last one."""
        return self[np.minimum(places, len(self) - 1)]

    def _check(self, places: Any) -> None:
        if isinstance(places, slice):
            start, stop, _ = places.indices(len(self))
            blocks = np.arange(start // self._per_block, -(-stop // self._per_block))
        else:
            blocks = np.asarray(places) // self._per_block
        for block in np.unique(blocks[self._unchecked[blocks]]).tolist():
            start = block * self._per_block
            content = self._values[start : start + self._per_block]
            if sha256(content.data).hexdigest() != self._hashes[block]:
                raise UserError(
                    f"{self._path} is damaged (block {block}, from byte {block * BLOCK:,}); delete"
                    f" {self._path.parent} and prepare the data again"
                )
            self._unchecked[block] = False


@cache
def _unchecked_blocks(path: Path, state: tuple[int, ...], blocks: int) -> Flags:
    """Return which blocks of a file this process has not checked yet [blocks].

    All readers of a file share the result, unless its inode, size or time of change differs.
    """
    return np.ones(blocks, dtype=bool)


class AscendingArray:
    """An ascending array: value i is `bases[i // GROUP] + distances[i]`."""

    def __init__(self, bases: StoredArray, distances: StoredArray) -> None:
        self._bases = bases
        self._distances = distances

    def __len__(self) -> int:
        return len(self._distances)

    def __getitem__(self, places: Any, /) -> Integers:
        """Return the values at a slice or an array of places."""
        if isinstance(places, slice):
            places = np.arange(*places.indices(len(self)))
        places = np.asarray(places)
        values: Integers = self._bases[places // GROUP].astype(np.int64) + self._distances[places]
        return values


# ------------------------------------------------------------------ writing


class ArrayWriter:
    """A file of integers, not below 0; it gets a wider type when a value needs it.

    The result depends on the values only, not on how they are divided among calls of `append`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kind = ArrayType(ZEROS, 0)
        self._file = path.open("wb")

    def append(self, values: NDArray[Any]) -> None:
        """Append integers [n]."""
        kind = narrowest(int(values.max(initial=0)))
        if TYPES.index(kind) > TYPES.index(self.kind.type):
            self._widen(kind)
        if self.kind.type:
            values.astype(self.kind.type, copy=False).tofile(self._file)
        self.kind = self.kind._replace(size=self.kind.size + len(values))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _widen(self, kind: str) -> None:
        """Rewrite the file with another type."""
        old = self.kind
        self.kind = old._replace(type=kind)
        if old.size == 0:
            return
        self._file.close()
        wider = self.path.with_name(f"{self.path.name}.wider")
        with self.path.open("rb") as narrow, wider.open("wb") as file:
            for start in range(0, old.size, COPIED):
                part = ArrayType(old.type, min(COPIED, old.size - start))
                read_array(narrow, part).astype(kind).tofile(file)
        os.replace(wider, self.path)
        self._file = self.path.open("ab")


class AscendingWriter:
    """Writes the two files of an `AscendingArray`."""

    def __init__(self, bases: ArrayWriter, distances: ArrayWriter) -> None:
        self._bases = bases
        self._distances = distances
        self._base = 0

    def append(self, values: Integers) -> None:
        """Append values, each at least the one before [n]."""
        first = -self._distances.kind.size % GROUP  # place of the next value that is a base
        bases = np.append(self._base, values[first::GROUP])
        groups = (np.arange(len(values)) - first) // GROUP + 1
        self._bases.append(bases[1:])
        self._distances.append(values - bases[groups])
        self._base = int(bases[-1])


class ArrayFiles:
    """The files of several arrays of a split, open for appending inside a `with`."""

    def __init__(self, folder: Path, split: str, arrays: tuple[str, ...]) -> None:
        self.writers = {name: ArrayWriter(array_file(folder, split, name)) for name in arrays}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for writer in self.writers.values():
            writer.close()

    @property
    def kinds(self) -> dict[str, ArrayType]:
        """Type and number of the values of each array."""
        return {name: writer.kind for name, writer in self.writers.items()}
