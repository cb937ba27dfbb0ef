"""The frontier of quality and diversity."""

from __future__ import annotations

from collections.abc import Sequence


def on_frontier(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Return which points no other point exceeds in one coordinate without falling behind in the
    other.
    """
    return [
        not any(
            other != point and other[0] >= point[0] and other[1] >= point[1] for other in points
        )
        for point in points
    ]
