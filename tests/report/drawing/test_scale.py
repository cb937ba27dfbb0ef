from __future__ import annotations

import numpy as np
import pytest

from dialog.report.drawing.scale import (
    MISSING,
    ON_DARK,
    ON_LIGHT,
    highest_weight,
    to_colours,
    to_css,
    validate_weights,
)


def luminance(colours: np.ndarray) -> np.ndarray:
    """Relative luminance of sRGB as defined in WCAG 2."""
    share = colours / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return np.asarray(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize(("colours", "direction"), [(ON_LIGHT, -1), (ON_DARK, 1)])
def test_luminance_is_monotonic(colours: tuple[str, ...], direction: int) -> None:
    light = luminance(to_colours(np.linspace(0, 1, 60), colours))
    assert (np.diff(light) * direction > 0).all()
    darkest, lightest = sorted([light[0], light[-1]])
    assert (lightest + 0.05) / (darkest + 0.05) > 10


def test_ends_clipping_and_missing() -> None:
    assert [to_css(colour) for colour in to_colours([0, 1, -3, 7, np.nan])] == [
        *(ON_LIGHT[0], ON_LIGHT[-1], ON_LIGHT[0], ON_LIGHT[-1]),
        MISSING,
    ]
    assert to_colours(np.zeros((2, 3))).shape == (2, 3, 3)


def test_labels_must_match_the_shape() -> None:
    assert validate_weights([[1, 2]], rows=["a"], columns=["b", "c"]).shape == (1, 2)
    for weights, rows, columns in (
        ([[1.0]], ["a"], ["b", "c"]),
        ([1.0], ["a"], ["b"]),
        (np.zeros((0, 2)), [], ["a", "b"]),
    ):
        with pytest.raises(ValueError, match=r"labels|empty"):
            validate_weights(weights, rows=rows, columns=columns)


def test_highest_weight() -> None:
    assert highest_weight(np.array([[0.1, np.nan, np.inf]]), np.array([[0.7]])) == 0.7
    assert highest_weight(np.zeros((2, 2))) == highest_weight() == 1.0
