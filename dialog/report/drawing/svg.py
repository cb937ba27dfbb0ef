"""Attention maps as SVG strings, for a file or inside a page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dialog.report.drawing.axes import label_width
from dialog.report.drawing.canvas import Canvas, Colour, Point
from dialog.report.drawing.scale import (
    ON_DARK,
    ON_LIGHT,
    highest_weight,
    to_colours,
    to_css,
    validate_weights,
)

# pixels per cell, columns of text to which labels are truncated
CELL = 22
LABEL = 18


def heatmap_svg(
    weights: npt.ArrayLike,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str = "",
    peak: float | None = None,
    limit: int = LABEL,
) -> str:
    """Draw weights [T, S] with a label per row (top to bottom) and column; the tooltip of a cell is
    its weight.

    The scale runs from 0 to `peak`, by default the highest weight of the map. Labels are truncated
    to `limit` columns.

    Raises:
        ValueError: the number of labels is wrong, or the map is empty.
    """
    array = validate_weights(weights, rows=rows, columns=columns)
    peak = peak or highest_weight(array)
    left = max(label_width(label, limit) for label in rows) + 16
    highest = max(label_width(label, limit) for label in columns)
    top = 0.87 * highest + 20 + (24 if title else 0)  # labels are turned by 60 degrees
    map_width = array.shape[1] * CELL
    map_height = array.shape[0] * CELL
    overhang = max(
        label_width(label, limit) / 2 - (len(columns) - index) * CELL
        for index, label in enumerate(columns)
    )
    width = left + map_width + max(64, overhang + 20)
    canvas = Canvas(width, top + map_height + 8, label=title or "Map of attention weights")
    canvas.text(title, (2, 14), bold=True)
    for index, label in enumerate(rows):
        canvas.text(
            _mark_spaces(label),
            (left - 6, top + (index + 0.5) * CELL + 4),
            anchor="end",
            limit=limit,
        )
    for index, label in enumerate(columns):
        canvas.text(
            _mark_spaces(label), (left + (index + 0.5) * CELL + 3, top - 6), angle=-60, limit=limit
        )
    shades = _shades(array / peak)
    for row, column in np.ndindex(array.shape):
        corner = (left + column * CELL, top + row * CELL)
        tip = (
            f"{_mark_spaces(rows[row])} → {_mark_spaces(columns[column])}: {array[row, column]:.3f}"
        )
        canvas.rectangle(corner, (CELL - 1, CELL - 1), shades[row][column], tip=tip)
    _colour_bar(canvas, (left + map_width + 12, top), map_height - 1, peak)
    return str(canvas)


def _colour_bar(canvas: Canvas, corner: Point, height: float, peak: float) -> None:
    x, y = corner
    shades = _shades(np.linspace(1, 0, 32)[None])[0]
    for step, shade in enumerate(shades):
        canvas.rectangle((x, y + height * step / 32), (10, height / 32 + 0.5), shade)
    canvas.text(f"{peak:.2g}", (x + 15, y + 9))
    canvas.text("0", (x + 15, y + height))


def _shades(fractions: npt.NDArray[np.float64]) -> list[list[Colour]]:
    light = to_colours(fractions, ON_LIGHT)
    dark = to_colours(fractions, ON_DARK)
    return [
        [(to_css(on_light), to_css(on_dark)) for on_light, on_dark in zip(*rows, strict=True)]
        for rows in zip(light, dark, strict=True)
    ]


def _mark_spaces(label: str) -> str:
    """Replace the tokenizer's mark of a space by an underscore, which is less prominent."""
    return label.replace("▁", "_")
