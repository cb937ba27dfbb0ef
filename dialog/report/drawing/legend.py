"""Charts of a page as files: with a legend, which the page has beside them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dialog.report.drawing.axes import model_line
from dialog.report.drawing.canvas import Canvas
from dialog.report.terminal import display_width

LINE, INDENT, LETTER = 18, 62, 6.6
"""Pixels per line, before a line, and per column of text."""
MOST = 60
"""Columns of a name."""
SIZE = re.compile(r'width="(\d+)" height="(\d+)"')


def with_legend(chart: str, names: Sequence[str]) -> str:
    """Return the SVG of a chart with the line and the name of each model below it.

    Raises:
        ValueError: the SVG does not begin with its size, as that of `Canvas` does.
    """
    size = SIZE.search(chart)
    if size is None:
        raise ValueError("the drawing has no size")
    width, height = map(int, size.groups())
    longest = max((min(display_width(name), MOST) for name in names), default=0)
    canvas = Canvas(max(width, INDENT + 30 + LETTER * longest), height + LINE * (len(names) + 1), label="Chart")
    for number, name in enumerate(names):
        middle = height + LINE * (number + 0.7)
        model_line(canvas, [(INDENT, middle), (INDENT + 22, middle)], number)
        canvas.text(name, (INDENT + 30, middle + 4), limit=MOST)
    return str(canvas).removesuffix("</svg>") + chart + "</svg>"
