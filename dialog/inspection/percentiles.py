"""Percentiles of lengths."""

from __future__ import annotations

import numpy as np

from dialog.data.text_matching.fingerprints import Integers

PERCENTS = (50, 90, 95, 99, 100)
LABELS = tuple(f"p{percent}" if percent < 100 else "max" for percent in PERCENTS)


def percentiles(sizes: Integers) -> list[int]:
    """For each p of `PERCENTS`, return the smallest size that at least p % do not exceed; 0 without
    sizes.
    """
    if not len(sizes):
        return [0] * len(PERCENTS)
    return [int(size) for size in np.percentile(sizes, PERCENTS, method="inverted_cdf")]
