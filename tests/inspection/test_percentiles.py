"""Percentiles."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dialog.inspection.findings import PERCENTS, SizeDistribution


@given(st.lists(st.integers(0, 20), min_size=1))
def test_a_percentile_is_the_smallest_sufficient_size(sizes: list[int]) -> None:
    counted = SizeDistribution()
    counted.add(sizes[:3])
    counted.add(sizes[3:])
    assert len(counted) == len(sizes)
    assert counted.mean == sum(sizes) / len(sizes)
    assert (counted.longest, counted.above(7)) == (max(sizes), sum(size > 7 for size in sizes))
    for percent, percentile in zip(PERCENTS, counted.percentiles(), strict=True):
        assert percentile in sizes
        assert 100 * sum(size <= percentile for size in sizes) >= percent * len(sizes)
        assert 100 * sum(size < percentile for size in sizes) < percent * len(sizes)
