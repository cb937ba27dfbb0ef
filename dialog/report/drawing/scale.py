"""Weights to colours, for every drawing of a map of weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

ON_LIGHT = ("#f1f5f1", "#b9d6be", "#7ab89d", "#2a9791", "#076e86", "#064280", "#1e175a")
"""From paper to dark violet, for a light page. Lightness falls in even steps of OKLCH, so that the order of weights
survives in grey and in any colour vision."""

ON_DARK = ("#1c1e2b", "#213670", "#0d5c80", "#00868c", "#4ab08b", "#9ad470", "#ffea6d")
"""From a dark page to light yellow, for that page; lightness rises in even steps."""

MISSING = "#9a9a9a"
"""What is not a number."""


def ramp(shares: npt.ArrayLike, colours: Sequence[str] = ON_LIGHT) -> npt.NDArray[np.uint8]:
    """Shares of the scale, clipped to [0, 1], to red, green and blue: [...] -> [..., 3]; NaN becomes grey."""
    shares = np.asarray(shares, dtype=np.float64)
    anchors = np.array([_rgb(colour) for colour in colours], dtype=np.float64)  # [A, 3]
    steps = np.linspace(0, 1, len(anchors))
    mixed = np.stack([np.interp(np.nan_to_num(shares), steps, channel) for channel in anchors.T], axis=-1)
    mixed[np.isnan(shares)] = _rgb(MISSING)
    channels: npt.NDArray[np.uint8] = np.rint(mixed).astype(np.uint8)
    return channels


def css(colour: npt.NDArray[np.uint8]) -> str:
    """One colour [3] as `#rrggbb`."""
    return "#" + colour.tobytes().hex()


def checked(weights: npt.ArrayLike, *, rows: Sequence[str], columns: Sequence[str]) -> npt.NDArray[np.float64]:
    """The weights as an array [T, S] that has a label for each row and each column.

    Raises:
        ValueError: labels that do not fit, or nothing to draw.
    """
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != (len(rows), len(columns)):
        raise ValueError(f"weights {list(array.shape)} for {len(rows)} labels of rows and {len(columns)} of columns")
    if not array.size:
        raise ValueError("a map of weights needs a row and a column")
    return array


def top(*weights: npt.NDArray[np.float64]) -> float:
    """The greatest finite weight of some maps, the natural end of a scale that they share; 1 where none is above 0."""
    return max((float(array[np.isfinite(array)].max(initial=0.0)) for array in weights), default=0.0) or 1.0


def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(colour.removeprefix("#")))
