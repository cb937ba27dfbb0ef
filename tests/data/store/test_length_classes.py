"""The sort by length gives the order of sorting in memory, for any chunk size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.data.store import length_classes
from dialog.data.store.arrays import ArrayType
from dialog.data.store.length_classes import LengthClasses, by_length, read_classes, write_classes
from dialog.data.store.manifest import read_manifest, write_manifest

length = st.one_of(st.integers(1, 40), st.integers(1, 3000))
pairs = st.lists(st.tuples(length, length), min_size=1, max_size=60)


def rounded_up(number: int) -> int:
    """Return the next number with at most four significant binary digits."""
    while len(f"{number:b}".rstrip("0")) > 4:
        number += 1
    return number


def lists(classes: LengthClasses) -> list[list[int]]:
    return [field[:].tolist() for field in classes]


@given(pairs)
def test_rows_are_sorted_by_rounded_lengths(lengths: list[tuple[int, int]]) -> None:
    classes = by_length(*np.array(lengths).T)
    keys = [(rounded_up(source), rounded_up(target)) for source, target in lengths]
    assert classes.order[:].tolist() == sorted(
        range(len(lengths)), key=lambda row: (keys[row], row)
    )
    table = list(zip(classes.sources.tolist(), classes.targets.tolist(), strict=True))
    assert table == sorted(set(keys))
    assert classes.counts.tolist() == [keys.count(key) for key in table]


@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_chunks_on_disk_give_the_same_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    pairs = np.random.default_rng(0).integers(1, 90, size=(100, 2))
    pairs.astype("<u1").tofile(tmp_path / "train.lengths.bin")
    whole = lists(by_length(*pairs.T))
    monkeypatch.setattr(length_classes, "CHUNK", chunk)
    arrays = write_classes(tmp_path, "train", ArrayType("<u1", pairs.size))
    write_manifest(tmp_path, {"arrays": {"train": arrays}})
    assert lists(read_classes(tmp_path, read_manifest(tmp_path), "train")) == whole


def test_the_longest_lengths_have_a_class() -> None:
    classes = by_length(np.array([2**20 + 1]), np.array([3]))
    assert lists(classes) == [[2**20 + 2**17], [3], [1], [0]]
