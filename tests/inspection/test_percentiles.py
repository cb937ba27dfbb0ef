"""Percentiles."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dialog.inspection.findings import PERCENTS, percentiles


@given(st.lists(st.integers(0, 20), min_size=1))
def test_a_percentile_is_the_smallest_sufficient_size(sizes: list[int]) -> None:
    for percent, percentile in zip(PERCENTS, percentiles(np.array(sizes)), strict=True):
        assert percentile in sizes
        assert 100 * sum(size <= percentile for size in sizes) >= percent * len(sizes)
        assert 100 * sum(size < percentile for size in sizes) < percent * len(sizes)
