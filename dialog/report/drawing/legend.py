"""Charts of a page as files: with a legend, which the page has beside them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dialog.report.drawing.axes import (
    LEGEND_COLUMNS,
    LEGEND_LINE,
    LEGEND_NAME,
    LETTER,
    Plot,
    draw_legend,
)
from dialog.report.drawing.canvas import Canvas
from dialog.report.terminal import display_width

SIZE = re.compile(r'width="(\d+)" height="(\d+)"')


def with_legend(chart: str, names: Mapping[int, str]) -> str:
    """Return the SVG of a chart with the line and the name of each model below it; `names` maps
    their numbers to them.

    Raises:
        ValueError: the SVG does not begin with its size, as that of `Canvas` does.
    """
    size = SIZE.search(chart)
    if size is None:
        raise ValueError("the drawing has no size")
    width, height = map(int, size.groups())
    longest = max((min(display_width(name), LEGEND_COLUMNS) for name in names.values()), default=0)
    needed = Plot.left + LEGEND_NAME + LETTER * longest
    canvas = Canvas(max(width, needed), height + LEGEND_LINE * (len(names) + 1), label="Chart")
    draw_legend(canvas, names, (Plot.left, height + LEGEND_LINE / 2))
    return str(canvas).removesuffix("</svg>") + chart + "</svg>"
