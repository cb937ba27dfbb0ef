"""Integers in files: the narrowest type, any division into appends, any way to read."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.data.store import arrays
from dialog.data.store.arrays import (
    ArrayWriter,
    AscendingArray,
    AscendingWriter,
    StoredArray,
    block_hashes,
)

limits = st.sampled_from([0, 255, 256, 65535, 65536, 2**32, 2**63 - 1])
values = limits.flatmap(lambda most: st.lists(st.integers(0, most), min_size=1, max_size=30))
WIDTHS = {1: 0, 2**8: 1, 2**16: 2, 2**32: 4, 2**64: 8}


def stored(writer: ArrayWriter) -> StoredArray:
    writer.close()
    return StoredArray(writer.path, writer.kind, block_hashes(writer.path))


@given(values, st.integers(1, 8), st.integers(1, 4))
def test_values_are_read_back(numbers: list[int], part: int, copied: int) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "BLOCK", 16)
        patch.setattr(arrays, "COPIED", copied)
        writer = ArrayWriter(Path(folder) / "a.bin")
        for start in range(0, len(numbers), part):
            writer.append(np.array(numbers[start : start + part], dtype=np.int64))
        read = stored(writer)
        width = next(width for limit, width in WIDTHS.items() if max(numbers) < limit)
        assert writer.path.stat().st_size == width * len(numbers)
        assert read[:].tolist() == numbers
        assert read[np.array([0, len(numbers) - 1])].tolist() == [numbers[0], numbers[-1]]
        assert read.take(np.array([[0, len(numbers)]])).tolist() == [[numbers[0], numbers[-1]]]
        assert read[1:3].tolist() == numbers[1:3]


@given(values, st.integers(1, 8), st.integers(1, 4))
def test_ascending_values_are_read_back(numbers: list[int], part: int, group: int) -> None:
    numbers = sorted(numbers)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "GROUP", group)
        bases, distances = (ArrayWriter(Path(folder) / name) for name in "ab")
        writer = AscendingWriter(bases, distances)
        for start in range(0, len(numbers), part):
            writer.append(np.array(numbers[start : start + part], dtype=np.int64))
        read = AscendingArray(stored(bases), stored(distances))
        assert len(read) == len(numbers)
        assert read[:].tolist() == numbers
        assert read[1:3].tolist() == numbers[1:3]
        assert read[np.array([len(numbers) - 1, 0])].tolist() == [numbers[-1], numbers[0]]
