"""Means on an axis, with bars that join contenders which are not distinguished, as in a
critical-difference plot (Demsar 2006, Journal of Machine Learning Research 7).
"""

from __future__ import annotations

from collections.abc import Sequence

from dialog.report.drawing.axes import label_width, padded, tick_label, ticks
from dialog.report.drawing.canvas import INK, Canvas
from dialog.report.drawing.forest import DECIDED

AXIS = 400.0
LINE = 20.0
BAR = 9.0
"""Pixels of the axis, of a line of text, and between bars."""
LABEL = 40
"""Columns of a label."""


def groups_svg(
    names: Sequence[str], values: Sequence[float], groups: Sequence[Sequence[int]], *, title: str
) -> str:
    """Draw contenders, the best first, from left to right by their values.

    Args:
        names: Names with their values.
        values: Means.
        groups: Places of the contenders that a bar joins; those of one are left out.
        title: Label of the axis.
    """
    joined = [group for group in groups if len(group) > 1]
    widest = max(label_width(name, LABEL) for name in names)
    left = widest + 28
    right = left + AXIS
    low, high = padded(values)
    turned = values[0] > values[-1]  # the best is at the left

    def across(value: float) -> float:
        share = (value - low) / (high - low)
        return right - share * AXIS if turned else left + share * AXIS

    axis = 44.0
    first = axis + 16 + BAR * len(joined)
    half = (len(names) + 1) // 2
    canvas = Canvas(right + widest + 28, first + LINE * half + 12, label=title)
    canvas.text(title, ((left + right) / 2, 14), anchor="middle")
    canvas.line([(left, axis), (right, axis)], opacity=0.7)
    for value in ticks(low, high):
        canvas.line([(across(value), axis - 4), (across(value), axis)], INK, opacity=0.7)
        canvas.text(tick_label(value), (across(value), axis - 9), anchor="middle")
    for place, group in enumerate(joined):
        height = axis + 11 + BAR * place
        ends = sorted(across(values[member]) for member in group)
        points = [(ends[0] - 3, height), (ends[-1] + 3, height)]
        canvas.line(points, DECIDED, width=4, tip=", ".join(names[member] for member in group))
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        at_left = place < half
        line = place if at_left else len(names) - 1 - place
        height = first + LINE * (line + 0.5)
        end = left - 8 if at_left else right + 8
        path = [(across(value), axis), (across(value), height), (end, height)]
        canvas.line(path, opacity=0.55)
        text = (end - 6, height + 4) if at_left else (end + 6, height + 4)
        canvas.text(name, text, anchor="end" if at_left else "start", limit=LABEL)
    return str(canvas)
