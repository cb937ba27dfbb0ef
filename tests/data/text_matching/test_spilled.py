"""Pairs of hashes sorted on disk are those sorted in memory, within bounded memory."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.data.text_matching import spilled
from dialog.data.text_matching.fingerprints import Hashes
from dialog.data.text_matching.spilled import SortedRuns, number_of_distinct

hashes = st.sampled_from([0, 1, 2**52, 2**52 + 1, 2**63, 2**64 - 1])
parts = st.lists(st.lists(st.tuples(hashes, hashes), min_size=1, max_size=8), max_size=8)


@given(parts, st.integers(1, 12))
def test_runs_on_disk_are_merged_in_order(parts: list[list[tuple[int, int]]], run: int) -> None:
    counts: Counter[tuple[int, int]] = Counter()
    merged = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spilled, "RUN", run)
        runs = SortedRuns()
        for pairs in parts:
            first, second = np.array(pairs, dtype=np.uint64).T
            runs.add(first, second, np.column_stack([np.ones(len(pairs)), np.zeros(len(pairs))]))
            counts.update(pairs)
        for rows in runs.ranges():
            columns = (column.tolist() for column in rows)
            merged += zip(*columns, strict=True)
    assert merged == [(*pair, [counts[pair], 0]) for pair in sorted(counts)]


def test_memory_does_not_grow_with_the_number_of_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilled, "RUN", 1 << 12)

    def drawn(times: int) -> Iterator[Hashes]:
        random = np.random.default_rng(0)
        for _ in range(times):
            part = random.integers(2**64, size=1 << 10, dtype=np.uint64)
            part[:100] = part[0]
            yield part

    def peak(times: int) -> float:
        tracemalloc.start()
        try:
            assert number_of_distinct(drawn(times)) == times * (2**10 - 99)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few = peak(20)
    assert few < 20 * 32 * spilled.RUN
    assert peak(100) < 1.5 * few + 80 * 8 * spilled.BUCKETS / 4
