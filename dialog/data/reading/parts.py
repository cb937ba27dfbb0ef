"""Parts of a file that processes read independently: byte ranges that end after a line, runs of row
groups or of files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from dialog.data.reading.files import COMPRESSED, LONGEST_LINE, has_utf16_mark

SMALLEST_PART = 2**20
MOST_PARTS = 4096
"""Smallest size of a part in bytes, and about the largest number of parts of a split."""


class Part(NamedTuple):
    """A part of a split: bytes [start:end] of a file of lines, row groups of a Parquet file, or
    files.
    """

    file: int  # number of the file among those of the split
    start: int
    end: int
    before: int  # number of lines of the file, or of rows of the split, before the part


def part_size(total: int) -> int:
    """Return the least bytes of the parts of a split with this number of bytes."""
    return max(SMALLEST_PART, total // MOST_PARTS)


def line_parts(path: Path, ends: Callable[[bytes], bool] = bool) -> list[Part]:
    """Return the parts of a file of lines; `ends(line)` returns whether a part may end after a
    line.

    A compressed file and one in UTF-16 have none: they cannot be read from the middle.
    """
    if path.suffix in COMPRESSED or has_utf16_mark(path):
        return []
    parts = []
    size = part_size(path.stat().st_size)
    start = before = 0
    with path.open("rb") as file:
        while chunk := file.read(size):
            lines = chunk.count(b"\n")
            begun = chunk.rpartition(b"\n")[2]
            while rest := file.readline(LONGEST_LINE + 1):
                lines += rest.endswith(b"\n")
                if ends(begun + rest):
                    break
                begun = b""
            end = file.tell()
            parts.append(Part(0, start, end, before))
            start = end
            before += lines
    return parts


def grouped(sizes: Iterable[int], total: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds [start:end] of runs of items of these bytes that are large enough for a
    part.
    """
    least = part_size(total)
    start = bytes = end = 0
    for end, size in enumerate(sizes, start=1):
        bytes += size
        if bytes >= least:
            yield start, end
            start = end
            bytes = 0
    if start < end:
        yield start, end
