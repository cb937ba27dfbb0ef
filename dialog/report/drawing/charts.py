"""Charts of a comparison: learning curves with seed bands, changes with spread, categories, and
reliability.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from dialog.report.drawing.axes import (
    LEGEND_LINE,
    LETTER,
    Plot,
    draw_axes,
    draw_frame,
    draw_legend,
    label_width,
    model_colour,
    model_line,
    padded,
    tick_label,
    ticks,
)
from dialog.report.drawing.canvas import Canvas, Point

NAMES = 34
"""Columns of the names of rows."""
POINTS = 100
"""Number of points of a mean line; lines of single seeds are thinned to as many."""

VISIBLE = 85
"""Percentile of the mean curves at which learning curves are cut off upwards: the first steps would
hide the rest.
"""

Lines = Sequence[Sequence[Point]]
"""A line (x, y), sorted by x, per seed."""


class Spread(NamedTuple):
    """Mean and half the length of its bar, None without one."""

    mean: float
    half: float | None = None


def bands_svg(models: Mapping[int, Lines], *, x: str, y: str) -> str:
    """Draw, for the models with these indices, a thin line per seed, their range as a band, and
    their mean.
    """
    lines = {model: [_finite(line) for line in seeds] for model, seeds in models.items()}
    means = {model: seed_band(seeds) for model, seeds in lines.items()}
    # Seeds without a common range have no mean; their own lines are drawn all the same.
    values = [value for model, band in means.items() for value in band[1] or _heights(lines[model])]
    drawn = [line for seeds in lines.values() for line in seeds]
    everything = [point for line in drawn for point in line]
    single = all(len(line) < 2 for line in drawn)
    top = float(np.percentile(values, 100 if single else VISIBLE)) if values else 1.0
    low, high = padded([y for _, y in everything if y <= top] or [0.0, top])
    plot = Plot(
        (0.0, max((x for x, _ in everything), default=1.0)), (low, high), size=(290.0, 220.0)
    )
    canvas = Canvas(plot.width, plot.height, label=f"{y} against {x}")
    draw_axes(canvas, plot, x, y)
    for model, (across, mean, least, most) in means.items():
        upper = [plot.pixel(*point) for point in zip(across, np.minimum(most, high), strict=True)]
        lower = [plot.pixel(*point) for point in zip(across, np.minimum(least, high), strict=True)]
        if len(lines[model]) > 1 and len(across):
            canvas.area(upper + lower[::-1], model_colour(model), opacity=0.16)
        for line in lines[model]:
            for part in below(thinned(line), high):
                model_line(
                    canvas, [plot.pixel(*point) for point in part], model, width=0.8, opacity=0.55
                )
        for part in below(list(zip(across, mean, strict=True)), high):
            model_line(canvas, [plot.pixel(*point) for point in part], model, width=2)
        for point in (line[0] for line in lines[model] if len(line) == 1 and line[0][1] <= high):
            canvas.dot(plot.pixel(*point), model_colour(model))
    return str(canvas)


def curves_svg(curves: Mapping[str, Sequence[Point]], *, x: str, y: str) -> str:
    """Draw a line for each name, with a ring at its minimum, and a legend.

    Points that are not finite are omitted.
    """
    lines = {name: _finite(points) for name, points in curves.items()}
    points = [point for line in lines.values() for point in line] or [(0.0, 0.0), (1.0, 1.0)]
    across = (min(0.0, *(x for x, _ in points)), max(x for x, _ in points))
    plot = Plot(across, padded([y for _, y in points]))
    height = plot.bottom + 52 + LEGEND_LINE * len(lines)
    canvas = Canvas(plot.width, height, label=f"{y} against {x}")
    draw_axes(canvas, plot, x, y)
    for number, (name, line) in enumerate(lines.items()):
        if line:
            best = min(line, key=lambda point: point[1])
            tip = f"{name}: lowest {best[1]:.4g} at {tick_label(best[0])}"
            model_line(canvas, [plot.pixel(*point) for point in line], number, tip=tip)
            canvas.ring(plot.pixel(*best), model_colour(number), tip=tip)
    draw_legend(canvas, dict(enumerate(lines)), (plot.left, plot.bottom + 47))
    return str(canvas)


def thinned(line: Sequence[Point]) -> list[Point]:
    """Return about `POINTS` points of a line, with the first and the last one."""
    step = max(1, len(line) // POINTS)
    return [*line[:-1:step], *line[-1:]]


def _heights(lines: Lines) -> list[float]:
    return [y for line in lines for _, y in line]


def seed_band(lines: Lines) -> tuple[list[float], list[float], list[float], list[float]]:
    """Return x, mean, minimum and maximum over lines where all of them are defined, interpolated
    linearly.
    """
    filled = [line for line in lines if line]
    low = max((line[0][0] for line in filled), default=0.0)
    high = min((line[-1][0] for line in filled), default=-1.0)
    if high < low:
        return [], [], [], []
    across = np.linspace(low, high, POINTS)
    values = np.array([np.interp(across, *np.array(line).T) for line in filled])  # [seeds, POINTS]
    return across.tolist(), values.mean(0).tolist(), values.min(0).tolist(), values.max(0).tolist()


def below(line: Sequence[Point], high: float) -> list[list[Point]]:
    """Return the parts of a line at or below `high`, cut where it crosses that height."""
    parts: list[list[Point]] = [[]]
    for (x, y), (next_x, next_y) in zip(line, [*line[1:], *line[-1:]], strict=True):
        if y <= high:
            parts[-1].append((x, y))
        if (y <= high) != (next_y <= high):
            parts[-1].append((x + (next_x - x) * (high - y) / (next_y - y), high))
            if y <= high:
                parts.append([])
    return [part for part in parts if len(part) > 1]


def changes_svg(rows: Sequence[tuple[str, Mapping[int, Spread]]], *, x: str) -> str:
    """Draw one line per label: a dot per model at its mean, with the bar of its interval."""
    spreads = [spread for _, values in rows for spread in values.values()]
    reach = [edge for spread in spreads for edge in _edges(spread)]
    margin = max((label_width(label, NAMES) for label, _ in rows), default=0.0)
    count = max((len(values) for _, values in rows), default=1)
    step = max(22.0, 11.0 * count + 8)
    plot = Plot(padded([0.0, *reach]), (float(len(rows)), 0.0), size=(320.0, step * len(rows)))
    plot.left = margin + 12
    plot.right = margin + 12 + 320
    canvas = Canvas(plot.right + 16, plot.height, label=x)
    for value in ticks(*plot.x):
        position, _ = plot.pixel(value, 0)
        canvas.line(
            [(position, plot.top), (position, plot.bottom)], opacity=0.6 if value == 0 else 0.13
        )
        canvas.text(tick_label(value), (position, plot.bottom + 18), anchor="middle")
    canvas.text(x, ((plot.left + plot.right) / 2, plot.bottom + 36), anchor="middle")
    for number, (label, values) in enumerate(rows):
        middle = plot.top + step * (number + 0.5)
        canvas.text(label, (plot.left - 8, middle + 4), anchor="end", limit=NAMES)
        for place, (model, spread) in enumerate(values.items()):
            height = middle + 9.0 * (place - (len(values) - 1) / 2)
            ends = [(plot.pixel(edge, 0)[0], height) for edge in _edges(spread)]
            _spread(canvas, (plot.pixel(spread.mean, 0)[0], height), ends, model, spread)
    return str(canvas)


def categories_svg(
    labels: Sequence[str],
    models: Mapping[int, Sequence[Spread | None]],
    *,
    x: str,
    y: str,
    ordered: bool = True,
) -> str:
    """Draw a dot per model and category with its bar, and a line per model if the categories have
    an order.
    """
    spreads = filter(None, chain.from_iterable(models.values()))
    edges = [edge for spread in spreads for edge in _edges(spread)]
    plot = Plot((-0.5, len(labels) - 0.5), padded(edges), size=(270.0, 170.0))
    canvas = Canvas(plot.width, plot.height, label=f"{y} by {x}")
    draw_frame(canvas, plot, x, y)
    # columns between two ticks
    limit = max(2, int((plot.right - plot.left) / max(1, len(labels)) / LETTER))
    for number, label in enumerate(labels):
        canvas.text(
            label, (plot.pixel(number, 0)[0], plot.bottom + 18), anchor="middle", limit=limit
        )
    for place, (model, values) in enumerate(models.items()):
        shift = 0.06 * (place - (len(models) - 1) / 2)
        drawn = [
            (number + shift, spread) for number, spread in enumerate(values) if spread is not None
        ]
        if ordered:
            model_line(
                canvas,
                [plot.pixel(across, spread.mean) for across, spread in drawn],
                model,
                width=1.2,
            )
        for across, spread in drawn:
            ends = [plot.pixel(across, edge) for edge in _edges(spread)]
            _spread(canvas, plot.pixel(across, spread.mean), ends, model, spread)
    return str(canvas)


def reliability_svg(models: Mapping[int, Sequence[Point]], *, x: str, y: str) -> str:
    """Draw accuracy against confidence for each model, and the diagonal of a calibrated one."""
    plot = Plot((0.0, 1.0), (0.0, 1.0), size=(260.0, 260.0))
    canvas = Canvas(plot.width, plot.height, label=f"{y} against {x}")
    draw_axes(canvas, plot, x, y)
    canvas.line([plot.pixel(0, 0), plot.pixel(1, 1)], opacity=0.4, dashed=True)
    for model, points in models.items():
        pixels = [plot.pixel(*point) for point in _finite(points)]
        model_line(canvas, pixels, model)
        for pixel, (confidence, accuracy) in zip(pixels, _finite(points), strict=True):
            canvas.dot(
                pixel,
                model_colour(model),
                tip=f"confidence {confidence:.3f}, accuracy {accuracy:.3f}",
            )
    return str(canvas)


def _spread(canvas: Canvas, centre: Point, ends: list[Point], model: int, spread: Spread) -> None:
    tip = f"{spread.mean:.4f}" + (f" ± {spread.half:.4f}" if spread.half is not None else "")
    if spread.half:
        canvas.line(ends, model_colour(model), width=1.6, opacity=0.7)
    canvas.dot(centre, model_colour(model), tip=tip)


def _edges(spread: Spread) -> tuple[float, float]:
    return spread.mean - (spread.half or 0.0), spread.mean + (spread.half or 0.0)


def _finite(line: Sequence[Point]) -> list[Point]:
    return [point for point in line if all(map(math.isfinite, point))]
