"""Parts of charts: axes with round ticks, colours and legends of models, data as pixels."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from dialog.escaping import one_line
from dialog.report.drawing.canvas import Canvas, Colour, Drawing, Point
from dialog.report.formats.numbers import with_prefix
from dialog.report.terminal import display_width

SERIES: tuple[Colour, ...] = (
    ("#0072b2", "#4aa8e0"),
    ("#c24e00", "#f08a4b"),
    ("#00795a", "#35c79a"),
    ("#a8508a", "#e091c4"),
    ("#8a6a00", "#e0b93a"),
    ("#4b4f58", "#b4bac4"),
)
"""Colours of models (Okabe and Ito 2008, "Color Universal Design"); reused with dashed lines for
further models.
"""

LETTER = 6.6
"""Pixels per column of text."""
LEGEND_LINE = 18
LEGEND_NAME = 30
LEGEND_COLUMNS = 60
"""Pixels per line of a legend and from its left edge to the names, and columns of a name."""

SIZE = re.compile(r'width="(\d+)" height="(\d+)"')
"""The size of a chart, at the beginning of its SVG."""

Range = tuple[float, float]


class Plot:
    """Map from data coordinates to pixels; the plot area is `size`, inside margins for labels."""

    left = 62.0
    right_margin = 16.0
    bottom_margin = 44.0

    def __init__(
        self, x: Range, y: Range, *, size: Point = (482.0, 266.0), top: float = 12.0
    ) -> None:
        self.x = x
        self.y = y
        self.top = top
        self.right = self.left + size[0]
        self.bottom = top + size[1]
        self.width = self.right + self.right_margin
        self.height = self.bottom + self.bottom_margin

    def pixel(self, x: float, y: float) -> Point:
        """Return the pixel of a point."""
        across = (x - self.x[0]) / ((self.x[1] - self.x[0]) or 1.0)
        up = (y - self.y[0]) / ((self.y[1] - self.y[0]) or 1.0)
        return self.left + across * (self.right - self.left), self.bottom - up * (
            self.bottom - self.top
        )


def label_width(text: str, limit: int) -> float:
    """Return the pixels of a text that is truncated to `limit` columns."""
    return LETTER * min(display_width(one_line(text)), limit)


def padded(values: Sequence[float]) -> Range:
    """Return a range that contains all values with a margin."""
    low = min(values, default=0.0)
    high = max(values, default=1.0)
    margin = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return low - margin, high + margin


def draw_axes(canvas: Drawing, plot: Plot, x: str, y: str) -> None:
    """Draw both axes with ticks and labels."""
    for value in ticks(*plot.x):
        position, _ = plot.pixel(value, plot.y[0])
        canvas.line([(position, plot.bottom), (position, plot.bottom + 4)], opacity=0.6)
        canvas.text(tick_label(value), (position, plot.bottom + 18), anchor="middle")
    draw_frame(canvas, plot, x, y)


def draw_frame(canvas: Drawing, plot: Plot, x: str, y: str) -> None:
    """Draw the vertical axis with ticks, the horizontal axis without, and the labels of both."""
    for value in ticks(*plot.y):
        _, height = plot.pixel(0, value)
        canvas.line([(plot.left, height), (plot.right, height)], opacity=0.13)
        canvas.text(tick_label(value), (plot.left - 8, height + 4), anchor="end")
    canvas.line([(plot.left, plot.bottom), (plot.right, plot.bottom)], opacity=0.6)
    canvas.text(x, ((plot.left + plot.right) / 2, plot.bottom + 36), anchor="middle")
    canvas.text(y, (plot.left - 49, (plot.top + plot.bottom) / 2), anchor="middle", angle=-90)


def model_colour(index: int) -> Colour:
    """Return the colour of the model with this index."""
    return SERIES[index % len(SERIES)]


def model_line(
    canvas: Drawing,
    points: list[Point],
    model: int,
    *,
    width: float = 1.8,
    opacity: float = 0.9,
    tip: str = "",
) -> None:
    """Draw a line in the colour of a model."""
    canvas.line(
        points,
        model_colour(model),
        width=width,
        opacity=opacity,
        dashed=model >= len(SERIES),
        tip=tip,
    )


def draw_legend(canvas: Drawing, names: Mapping[int, str], corner: Point) -> None:
    """Draw the line and the name of each model, one below the other; `names` maps numbers of models
    to them.
    """
    left, top = corner
    for place, (model, name) in enumerate(names.items()):
        middle = top + LEGEND_LINE * (place + 0.5)
        model_line(canvas, [(left, middle), (left + 22, middle)], model)
        canvas.text(name, (left + LEGEND_NAME, middle + 4), limit=LEGEND_COLUMNS)


def with_legend(chart: str, names: Mapping[int, str]) -> str:
    """Return the SVG of a chart with a legend below it, which a page has beside its charts.

    Raises:
        ValueError: the SVG does not begin with its size, as that of `Canvas` does.
    """
    size = SIZE.search(chart)
    if size is None:
        raise ValueError("the drawing has no size")
    width, height = map(int, size.groups())
    longest = max((label_width(name, LEGEND_COLUMNS) for name in names.values()), default=0.0)
    needed = Plot.left + LEGEND_NAME + longest
    canvas = Canvas(max(width, needed), height + LEGEND_LINE * (len(names) + 1), label="Chart")
    draw_legend(canvas, names, (Plot.left, height + LEGEND_LINE / 2))
    return str(canvas).removesuffix("</svg>") + chart + "</svg>"


def ticks(low: float, high: float, *, count: int = 5) -> list[float]:
    """Return about `count` round numbers in [low, high], 2 to 8; their step is 1, 2 or 5 times a
    power of ten.
    """
    if not low < high:
        return [low]
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= 0.7 * rough)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


def tick_label(value: float) -> str:
    """Format an axis tick: 0.5, 2000, 15k, 3M, 2P."""
    scaled, prefix = with_prefix(value, 4) if abs(value) >= 1e4 else (value, "")
    return f"{scaled:.4g}{prefix}"
