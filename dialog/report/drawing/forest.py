"""Forest plot: a row for each difference with its interval, and the figures beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dialog.report.drawing.axes import Range, label_width, padded, tick_label, ticks
from dialog.report.drawing.canvas import INK, Canvas, Colour

DECIDED: Colour = ("#0072b2", "#4aa8e0")
UNDECIDED: Colour = ("#6b7078", "#9aa0a8")
ROW = 22.0
WIDTH = 340.0
"""Pixels of a row, and of the area of the intervals."""
LABEL = 46
"""Columns of a label."""
WIDE = 1.1
"""Width of a bold text beside that of a plain one."""
EDGE = 0.92
"""Part of each half of the area that the widest interval takes."""


class ForestRow(NamedTuple):
    """A difference, its interval, its text at the right, and whether it is decided and bold."""

    label: str
    low: float
    middle: float
    high: float
    text: str
    decided: bool
    bold: bool = False


def forest_svg(
    rows: Sequence[ForestRow], *, title: str, left: str, right: str, common: bool
) -> str:
    """Draw a row for each difference and a line at 0.

    Args:
        rows: The rows, from top to bottom.
        title: Text for screen readers.
        left: What a difference below 0 means.
        right: What a difference above 0 means.
        common: All rows have one scale, with ticks; else each row has its own.
    """
    start = 22 + max(label_width(row.label, LABEL) for row in rows) + 14
    end = start + WIDTH
    bottom = 26 + ROW * len(rows)
    texts = max(WIDE * label_width(row.text, 80) for row in rows)
    canvas = Canvas(end + 14 + texts + 8, bottom + (28 if common else 8), label=title)
    low, high = _range(rows)
    zero = start - low / (high - low) * WIDTH if common else start + WIDTH / 2
    canvas.text(left, (zero - 12, 14), anchor="end")
    canvas.text(right, (zero + 12, 14))
    canvas.line([(zero, 20), (zero, bottom)], opacity=0.5, dashed=True)
    for place, row in enumerate(rows):
        height = 26 + ROW * (place + 0.5)
        own = max(abs(row.low), abs(row.high), abs(row.middle)) or 1.0
        scale = WIDTH / (high - low) if common else EDGE * WIDTH / 2 / own
        colour = DECIDED if row.decided else UNDECIDED
        canvas.text(row.label, (start - 14, height + 4), anchor="end", bold=row.bold, limit=LABEL)
        limits = [zero + scale * row.low, zero + scale * row.high]
        canvas.line([(limits[0], height), (limits[1], height)], colour, width=2.4, tip=row.text)
        for limit in limits:
            canvas.line([(limit, height - 4), (limit, height + 4)], colour, width=1.6)
        mark = canvas.dot if row.decided else canvas.ring
        mark((zero + scale * row.middle, height), colour, tip=row.text)
        canvas.text(row.text, (end + 14, height + 4), bold=row.bold)
    if common:
        canvas.line([(start, bottom), (end, bottom)], opacity=0.6)
        for value in ticks(low, high):
            across = zero + WIDTH / (high - low) * value
            canvas.line([(across, bottom), (across, bottom + 4)], INK, opacity=0.6)
            canvas.text(tick_label(value), (across, bottom + 18), anchor="middle")
    return str(canvas)


def _range(rows: Sequence[ForestRow]) -> Range:
    """Return the common scale of all rows: 0, their intervals, and a margin."""
    limits = [0.0, *(limit for row in rows for limit in (row.low, row.high))]
    return padded(limits)
