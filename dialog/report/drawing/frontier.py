"""Settings of a search as points, quality against diversity, with labels that do not overlap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from PIL import Image

from dialog.report.drawing.axes import Plot, draw_axes, model_colour, padded
from dialog.report.drawing.canvas import INK, Canvas, Colour, Drawing, PixelCanvas, Point
from dialog.report.terminal import display_width

LETTER = 6.8
LINE = 14.0
"""Pixels per column and per line of a label."""
NEAR = 16.0
FAR = 80.0
"""Largest distance in pixels of the name of a point, and of one on the frontier."""
SIZE = (560.0, 330.0)
MARKERS = {
    "beam": "square",
    "diverse_beam": "square",
    "delayed_beam": "square",
    "sampling": "dot",
    "greedy": "ring",
}
"""Marker of each search; others are triangles."""
LEGEND = (
    ("greedy", "ring"),
    ("beam searches", "square"),
    ("sampling", "dot"),
    ("other searches", "triangle"),
)

Box = tuple[float, float, float, float]
"""Left, top, right and bottom."""


class FrontierPoint(NamedTuple):
    """A setting: its diversity (x) and quality (y), the run, whether it is on the frontier, and
    selected.
    """

    name: str
    search: str
    x: float
    y: float
    run: int
    frontier: bool
    selected: bool


class Panel(NamedTuple):
    """A chart: labels of the axes, points, and vertical lines (x, label) such as the value of the
    references.
    """

    x: str
    y: str
    points: Sequence[FrontierPoint]
    verticals: Sequence[tuple[float, str]] = ()


def frontier_svg(panels: Sequence[Panel], runs: Sequence[str]) -> str:
    """Draw panels, two side by side, above a legend of runs and searches."""
    canvas = Canvas(*figure_size(panels, runs), label=f"{panels[0].y} against {panels[0].x}")
    draw_figure(canvas, panels, runs)
    return str(canvas)


def frontier_image(panels: Sequence[Panel], runs: Sequence[str]) -> Image.Image:
    """Draw the same as `frontier_svg` on pixels."""
    canvas = PixelCanvas(*figure_size(panels, runs))
    draw_figure(canvas, panels, runs)
    return canvas.image()


def figure_size(panels: Sequence[Panel], runs: Sequence[str]) -> Point:
    """Return the size of a figure in pixels."""
    plot = _plot(panels[0], (0, 0))
    rows = (len(panels) + 1) // 2
    return plot.width * min(2, len(panels)), plot.height * rows + 18 * max(
        len(runs), len(LEGEND)
    ) + 14


def draw_figure(canvas: Drawing, panels: Sequence[Panel], runs: Sequence[str]) -> None:
    """Draw panels and legend."""
    size = _plot(panels[0], (0, 0))
    for number, panel in enumerate(panels):
        draw_panel(canvas, panel, (number % 2 * size.width, number // 2 * size.height))
    top = (len(panels) + 1) // 2 * size.height + 18
    for run, name in enumerate(runs):
        canvas.rectangle((size.left, top + 18 * run - 9), (14, 9), model_colour(run))
        canvas.text(name, (size.left + 22, top + 18 * run), limit=52)
    for place, (name, marker) in enumerate(LEGEND):
        _marker(canvas, marker, (size.left + 400, top + 18 * place - 4), INK, "")
        canvas.text(name, (size.left + 412, top + 18 * place))


def draw_panel(canvas: Drawing, panel: Panel, corner: Point) -> None:
    """Draw axes, the frontier of each run as a line, and every point; names of points where they
    fit.

    The selected setting is named first, then those on the frontier, then the others.
    """
    plot = _plot(panel, corner)
    draw_axes(canvas, plot, panel.x, panel.y)
    taken: list[Box] = []
    for x, label in panel.verticals:
        foot = plot.pixel(x, plot.y[0])
        head = plot.pixel(x, plot.y[1])
        canvas.line([foot, head], opacity=0.5, dashed=True)
        at_left = foot[0] + LETTER * len(label) > plot.right
        canvas.text(
            label,
            (head[0] + (-5 if at_left else 5), head[1] + 11),
            anchor="end" if at_left else "start",
        )
        width = LETTER * len(label) + 5
        taken.append(
            (head[0] - width * at_left, head[1], head[0] + width * (not at_left), head[1] + LINE)
        )
        taken.append((head[0] - 1, head[1], head[0] + 1, foot[1]))
    for run in sorted({point.run for point in panel.points}):
        ends = sorted(
            (point.x, point.y) for point in panel.points if point.run == run and point.frontier
        )
        canvas.line([plot.pixel(*end) for end in ends], model_colour(run), width=1.2, opacity=0.45)
    pixels = [plot.pixel(point.x, point.y) for point in panel.points]
    for point, pixel in zip(panel.points, pixels, strict=True):
        tip = f"{point.name}: {panel.x} {point.x:.4g}, {panel.y} {point.y:.4g}"
        _marker(canvas, MARKERS.get(point.search, "triangle"), pixel, model_colour(point.run), tip)
        taken.append((pixel[0] - 4, pixel[1] - 4, pixel[0] + 4, pixel[1] + 4))
    ranks = [(not point.selected, not point.frontier) for point in panel.points]
    labelled: list[Point] = []
    for place in sorted(range(len(pixels)), key=ranks.__getitem__):
        if not any(_near(pixels[place], other) for other in labelled):
            same = sum(_near(pixels[place], other) for other in pixels) - 1
            _label(canvas, plot, panel.points[place], pixels[place], taken, same)
            labelled.append(pixels[place])


def _label(
    canvas: Drawing, plot: Plot, point: FrontierPoint, pixel: Point, taken: list[Box], same: int
) -> None:
    """Write the name of a point, and the number of others in the same place, where it overlaps
    nothing.

    Without free space near by, a point on the frontier is named farther away, another one not at
    all.
    """
    text = point.name + (" (selected)" if point.selected else "") + (f" +{same}" if same else "")
    width = LETTER * display_width(text) * (1.06 if point.selected else 1)  # bold
    farthest = FAR if point.selected or point.frontier else NEAR
    for box in _places(pixel, width, farthest):
        if _inside(box, plot) and not any(_overlap(box, other) for other in taken):
            left, top, right, bottom = box
            nearest = min(max(pixel[0], left), right), min(max(pixel[1], top), bottom)
            if abs(nearest[0] - pixel[0]) + abs(nearest[1] - pixel[1]) > 14:
                canvas.line([pixel, nearest], model_colour(point.run), width=0.7, opacity=0.5)
            if right <= pixel[0]:
                canvas.text(text, (right, bottom - 3), anchor="end", bold=point.selected)
            else:
                canvas.text(text, (left, bottom - 3), bold=point.selected)
            taken.append(box)
            return


def _places(pixel: Point, width: float, farthest: float) -> Iterable[Box]:
    """Yield boxes for a label around a point, the nearest first."""
    x, y = pixel
    for distance in (7.0, 16.0, 28.0, 44.0, 60.0, 80.0):
        if distance > farthest:
            return
        for left, middle in (
            (x + distance, y),
            (x - distance - width, y),
            (x + distance * 0.7, y - distance * 0.8),
            (x + distance * 0.7, y + distance * 0.8),
            (x - width - distance * 0.7, y - distance * 0.8),
            (x - width - distance * 0.7, y + distance * 0.8),
            (x - width / 2, y - distance - 4),
            (x - width / 2, y + distance + 4),
        ):
            yield left, middle - LINE / 2, left + width, middle + LINE / 2


def _near(pixel: Point, other: Point) -> bool:
    return abs(pixel[0] - other[0]) < 2 and abs(pixel[1] - other[1]) < 2


def _inside(box: Box, plot: Plot) -> bool:
    return (
        box[0] >= plot.left + 2
        and box[1] >= plot.top
        and box[2] <= plot.right
        and box[3] <= plot.bottom - 2
    )


def _overlap(box: Box, other: Box) -> bool:
    return box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]


def _plot(panel: Panel, corner: Point) -> Plot:
    """Return the plot of a panel whose upper left corner is at a place."""
    across = padded([*(point.x for point in panel.points), *(x for x, _ in panel.verticals)])
    plot = Plot(across, padded([point.y for point in panel.points]), size=SIZE, top=corner[1] + 14)
    plot.left = plot.left + corner[0]
    plot.right = plot.right + corner[0]
    return plot


def _marker(canvas: Drawing, marker: str, centre: Point, colour: Colour, tip: str) -> None:
    x, y = centre
    draw: dict[str, Callable[[], None]] = {
        "square": lambda: canvas.rectangle((x - 3.4, y - 3.4), (6.8, 6.8), colour, tip=tip),
        "dot": lambda: canvas.dot(centre, colour, tip=tip),
        "ring": lambda: canvas.ring(centre, colour, tip=tip),
        "triangle": lambda: canvas.area(
            [(x - 4.4, y + 3.6), (x + 4.4, y + 3.6), (x, y - 4.4)], colour, opacity=1, tip=tip
        ),
    }
    draw[marker]()
