"""Maps of weights and learning curves as SVG: a string that stands alone as a file or inside a page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dialog.report.drawing.canvas import Canvas, Colour, Point
from dialog.report.drawing.scale import ON_DARK, ON_LIGHT, checked, css, ramp, top
from dialog.report.terminal import columns as width_of
from dialog.report.terminal import one_line

SERIES: tuple[Colour, ...] = (
    ("#0072b2", "#4aa8e0"),
    ("#c24e00", "#f08a4b"),
    ("#00795a", "#35c79a"),
    ("#a8508a", "#e091c4"),
    ("#8a6a00", "#e0b93a"),
    ("#4b4f58", "#b4bac4"),
)
"""A colour a model, after Okabe and Ito ("Color Universal Design", 2008); with more models they come again, dashed."""

CELL, LETTER, LABEL = 22, 6.6, 18  # pixels a cell and a letter; columns of text a label


class Curve(NamedTuple):
    """One line of a chart: points (x, y) in the order of x, and the model (one colour each) and run that made them."""

    model: str
    run: str
    points: Sequence[Point]


def heatmap_svg(
    weights: npt.ArrayLike, *, rows: Sequence[str], columns: Sequence[str], title: str = "", peak: float | None = None
) -> str:
    """A map of weights [T, S] with a label for each row (top to bottom) and column; a cell's tooltip is its weight.

    The scale runs from 0 to `peak`, by default the greatest weight of the map.

    Raises:
        ValueError: labels that do not fit, or nothing to draw.
    """
    array = checked(weights, rows=rows, columns=columns)
    peak = peak or top(array)
    left, above = _extent(rows) + 12, 0.87 * _extent(columns) + 20 + (24 if title else 0)
    wide, high = array.shape[1] * CELL, array.shape[0] * CELL
    overhang = max(_extent([label]) / 2 - (len(columns) - index) * CELL for index, label in enumerate(columns))
    canvas = Canvas(left + wide + max(64, overhang + 20), above + high + 8, label=title or "Map of attention weights")
    canvas.text(title, (2, 14), bold=True)
    for index, label in enumerate(rows):
        canvas.text(_shown(label), (left - 6, above + (index + 0.5) * CELL + 4), anchor="end", limit=LABEL)
    for index, label in enumerate(columns):
        canvas.text(_shown(label), (left + (index + 0.5) * CELL + 3, above - 6), turn=-60, limit=LABEL)
    shades = _shades(array / peak)
    for row, column in np.ndindex(array.shape):
        corner = (left + column * CELL, above + row * CELL)
        tip = f"{rows[row]} → {columns[column]}: {array[row, column]:.3f}"
        canvas.rectangle(corner, (CELL - 1, CELL - 1), shades[row][column], tip=tip)
    _bar(canvas, (left + wide + 12, above), high - 1, peak)
    return str(canvas)


def curves_svg(curves: Sequence[Curve], *, x: str, y: str, title: str = "") -> str:
    """Lines in one colour a model, a ring at each line's lowest point, axes named `x` and `y`, and a legend.

    Points that are not finite are left out.
    """
    curves = [curve._replace(points=[p for p in curve.points if all(map(math.isfinite, p))]) for curve in curves]
    models = {model: index for index, model in enumerate(dict.fromkeys(curve.model for curve in curves))}
    plot = _Plot([point for curve in curves for point in curve.points], top=34 if title else 12)
    canvas = Canvas(plot.width, plot.bottom + 52 + 18 * len(models), label=title or f"{y} against {x}")
    canvas.text(title, (2, 14), bold=True)
    _axes(canvas, plot, x, y)
    for curve in curves:
        if curve.points:
            _curve(canvas, plot, curve, models[curve.model])
    for model, index in models.items():
        height = plot.bottom + 56 + 18 * index
        _model_line(canvas, [(plot.left, height), (plot.left + 22, height)], index)
        canvas.text(model, (plot.left + 30, height + 4), limit=60)
    return str(canvas)


def ticks(low: float, high: float, *, count: int = 5) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten apart) inside [low, high], about `count` of them."""
    if not low < high:
        return [low]
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


class _Plot:
    """From the units of the points to pixels."""

    def __init__(self, points: Sequence[Point], *, top: float) -> None:
        xs, ys = [x for x, _ in points] or [0.0, 1.0], [y for _, y in points] or [0.0, 1.0]
        self.low_x, self.high_x = min(0.0, *xs), max(xs)
        margin = (max(ys) - min(ys)) * 0.06 or abs(max(ys)) * 0.1 or 1.0
        self.low_y, self.high_y = min(ys) - margin, max(ys) + margin
        self.width, self.left, self.right = 560.0, 62.0, 544.0
        self.top, self.bottom = top, top + 266

    def at(self, x: float, y: float) -> Point:
        across = (x - self.low_x) / ((self.high_x - self.low_x) or 1.0)
        up = (y - self.low_y) / (self.high_y - self.low_y)
        return self.left + across * (self.right - self.left), self.bottom - up * (self.bottom - self.top)


def _axes(canvas: Canvas, plot: _Plot, x: str, y: str) -> None:
    for value in ticks(plot.low_y, plot.high_y):
        _, height = plot.at(0, value)
        canvas.line([(plot.left, height), (plot.right, height)], opacity=0.13)
        canvas.text(_short(value), (plot.left - 8, height + 4), anchor="end")
    for value in ticks(plot.low_x, plot.high_x):
        place, _ = plot.at(value, plot.low_y)
        canvas.line([(place, plot.bottom), (place, plot.bottom + 4)], opacity=0.6)
        canvas.text(_short(value), (place, plot.bottom + 18), anchor="middle")
    canvas.line([(plot.left, plot.bottom), (plot.right, plot.bottom)], opacity=0.6)
    canvas.text(x, ((plot.left + plot.right) / 2, plot.bottom + 36), anchor="middle")
    canvas.text(y, (13, (plot.top + plot.bottom) / 2), anchor="middle", turn=-90)


def _curve(canvas: Canvas, plot: _Plot, curve: Curve, model: int) -> None:
    best = min(curve.points, key=lambda point: point[1])
    tip = f"{curve.model}, {curve.run}: lowest {best[1]:.4g} at {_short(best[0])}"
    _model_line(canvas, [plot.at(*point) for point in curve.points], model, tip=tip)
    canvas.ring(plot.at(*best), SERIES[model % len(SERIES)], tip=tip)


def _model_line(canvas: Canvas, points: list[Point], model: int, *, tip: str = "") -> None:
    colour, dashed = SERIES[model % len(SERIES)], model >= len(SERIES)
    canvas.line(points, colour, width=1.8, opacity=0.9, dashed=dashed, tip=tip)


def _bar(canvas: Canvas, corner: Point, height: float, peak: float) -> None:
    x, y = corner
    shades = _shades(np.linspace(1, 0, 32)[None])[0]
    for step, shade in enumerate(shades):
        canvas.rectangle((x, y + height * step / 32), (10, height / 32 + 0.5), shade)
    canvas.text(f"{peak:.2g}", (x + 15, y + 9))
    canvas.text("0", (x + 15, y + height))


def _shades(shares: npt.NDArray[np.float64]) -> list[list[Colour]]:
    light, dark = ramp(shares, ON_LIGHT), ramp(shares, ON_DARK)
    return [
        [(css(day), css(night)) for day, night in zip(*rows, strict=True)] for rows in zip(light, dark, strict=True)
    ]


def _shown(label: str) -> str:
    """The mark of a space as a thin line: the block that stands for it in token lists outshouts the word."""
    return label.replace("▁", "_")


def _extent(labels: Sequence[str]) -> float:
    return LETTER * max(min(width_of(one_line(label)), LABEL) for label in labels)


def _short(value: float) -> str:
    """A number of an axis: 0.5, 2000, 15k, 3M."""
    units: Mapping[str, float] = {"G": 1e9, "M": 1e6, "k": 1e4}
    unit = next((unit for unit, size in units.items() if abs(value) >= size), "")
    return f"{value / {'G': 1e9, 'M': 1e6, 'k': 1e3, '': 1}[unit]:.4g}{unit}"
