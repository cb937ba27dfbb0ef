"""Colour scale of attention weights, shared by all drawings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

ON_LIGHT = ("#f1f5f1", "#b9d6be", "#7ab89d", "#2a9791", "#076e86", "#064280", "#1e175a")
"""Scale for a light page, from paper to dark violet.

OKLCH lightness falls in even steps, so the order of weights is visible in greyscale and with any
colour vision.
"""

ON_DARK = ("#1c1e2b", "#213670", "#0d5c80", "#00868c", "#4ab08b", "#9ad470", "#ffea6d")
"""Scale for a dark page, from its background to light yellow; lightness rises in even steps."""

DIFFERENCE_ON_LIGHT = ("#7a2d00", "#c9691f", "#eeb98c", "#f3f4f2", "#9fc3e0", "#2f7fbd", "#0b3d77")
"""Scale of differences for a light page: brown below 0, paper, blue above."""

DIFFERENCE_ON_DARK = ("#ffc48a", "#d9772b", "#7a4420", "#1c1e2b", "#1f4f7d", "#3a8fd0", "#a8d8ff")
"""Scale of differences for a dark page: orange below 0, its background, blue above."""

MISSING = "#9a9a9a"
"""Colour of NaN."""


def to_colours(fractions: npt.ArrayLike, scale: Sequence[str] = ON_LIGHT) -> npt.NDArray[np.uint8]:
    """Map fractions, clipped to [0, 1], to red, green and blue of the scale: [...] -> [..., 3]; NaN
    becomes grey.
    """
    fractions = np.asarray(fractions, dtype=np.float64)
    anchors = np.array([_rgb(colour) for colour in scale], dtype=np.float64)  # [A, 3]
    steps = np.linspace(0, 1, len(anchors))
    mixed = np.stack(
        [np.interp(np.nan_to_num(fractions), steps, channel) for channel in anchors.T], axis=-1
    )
    mixed[np.isnan(fractions)] = _rgb(MISSING)
    channels: npt.NDArray[np.uint8] = np.rint(mixed).astype(np.uint8)
    return channels


def to_css(colour: npt.NDArray[np.uint8]) -> str:
    """Return a colour [3] as `#rrggbb`."""
    return "#" + colour.tobytes().hex()


def validate_weights(
    weights: npt.ArrayLike, *, rows: Sequence[str], columns: Sequence[str]
) -> npt.NDArray[np.float64]:
    """Return the weights as an array [T, S] with one label per row and per column.

    Raises:
        ValueError: the number of labels is wrong, or the map is empty.
    """
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != (len(rows), len(columns)):
        raise ValueError(
            f"weights {list(array.shape)} do not fit the labels of {len(rows)} rows and"
            f" {len(columns)} columns"
        )
    if not array.size:
        raise ValueError("weights are empty; needs at least one row and one column")
    return array


def highest_weight(*maps: npt.NDArray[np.float64]) -> float:
    """Return the highest finite weight of all maps, the end of their common scale; 1 if no weight
    is positive.
    """
    return (
        max((float(array[np.isfinite(array)].max(initial=0.0)) for array in maps), default=0.0)
        or 1.0
    )


def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(colour.removeprefix("#")))
