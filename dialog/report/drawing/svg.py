"""Attention maps and learning curves as SVG strings, for a file or inside a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dialog.escaping import one_line
from dialog.report.drawing.axes import (
    LEGEND_LINE,
    LETTER,
    Plot,
    draw_axes,
    draw_legend,
    model_colour,
    model_line,
    padded,
    tick_label,
)
from dialog.report.drawing.canvas import Canvas, Colour, Point
from dialog.report.drawing.scale import (
    ON_DARK,
    ON_LIGHT,
    highest_weight,
    to_colours,
    to_css,
    validate_weights,
)
from dialog.report.terminal import display_width

# pixels per cell, columns of text to which labels are truncated
CELL = 22
LABEL = 18


class Curve(NamedTuple):
    """Line of a chart: points (x, y) sorted by x, the model, which sets the colour, and the run."""

    model: str
    run: str
    points: Sequence[Point]


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
    left = _label_width(rows, limit) + 16
    top = 0.87 * _label_width(columns, limit) + 20 + (24 if title else 0)
    map_width = array.shape[1] * CELL
    map_height = array.shape[0] * CELL
    overhang = max(
        _label_width([label], limit) / 2 - (len(columns) - index) * CELL
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


def curves_svg(curves: Sequence[Curve], *, x: str, y: str) -> str:
    """Draw one colour per model, a ring at each line's minimum, axis labels `x` and `y`, and a
    legend.

    Points that are not finite are omitted.
    """
    curves = [
        curve._replace(points=[p for p in curve.points if all(map(math.isfinite, p))])
        for curve in curves
    ]
    models = {
        model: index for index, model in enumerate(dict.fromkeys(curve.model for curve in curves))
    }
    points = [point for curve in curves for point in curve.points] or [(0.0, 0.0), (1.0, 1.0)]
    across = min(0.0, *(x for x, _ in points)), max(x for x, _ in points)
    plot = Plot(across, padded([y for _, y in points]), top=12)
    canvas = Canvas(
        plot.width, plot.bottom + 52 + LEGEND_LINE * len(models), label=f"{y} against {x}"
    )
    draw_axes(canvas, plot, x, y)
    for curve in curves:
        if curve.points:
            _curve(canvas, plot, curve, models[curve.model])
    draw_legend(canvas, dict(enumerate(models)), (plot.left, plot.bottom + 47))
    return str(canvas)


def _curve(canvas: Canvas, plot: Plot, curve: Curve, model: int) -> None:
    best = min(curve.points, key=lambda point: point[1])
    tip = f"{curve.model}, {curve.run}: lowest {best[1]:.4g} at {tick_label(best[0])}"
    model_line(canvas, [plot.pixel(*point) for point in curve.points], model, tip=tip)
    canvas.ring(plot.pixel(*best), model_colour(model), tip=tip)


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


def _label_width(labels: Sequence[str], limit: int) -> float:
    return LETTER * max(min(display_width(one_line(label)), limit) for label in labels)
