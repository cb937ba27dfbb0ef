"""Attention maps as images, drawn within milliseconds, so that they can be logged during
training.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from dialog.report.drawing.fonts import HEIGHT, Label, fonts, label_of, labels_of
from dialog.report.drawing.scale import highest_weight, to_colours, validate_weights

Box = tuple[int, int, int, int]

INK = (28, 32, 38)
PAPER = (255, 255, 255)
# columns of text to which labels and titles are truncated
LABEL = 20
TITLE = 100
# maximum pixels of a row of panels (width) and of a panel (height), with at least two per cell
SIDE = 2400


@dataclass(frozen=True, slots=True)
class HeatmapLayout:
    """Layout of an image of `panels` maps of one shape, in pixels from the upper left corner.

    Attributes:
        across: number of panels side by side.
        cell: side of a cell; from 12 pixels on, this includes a gap of one pixel.
        left: width of the row labels, drawn once, left of each row of panels.
        top: height of title and column labels, drawn once, above the first row of panels.
        heading: height of the heading above each panel, 0 without headings.
        min_width: width of the title.
    """

    rows: int
    columns: int
    panels: int
    across: int
    cell: int
    left: int
    top: int
    heading: int
    min_width: int
    gap: int = 14
    bar: int = 66

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the image."""
        left = self.corner(self.across - 1)[0]
        top = self.corner(self.panels - 1)[1]
        width = max(left + self.columns * self.cell + self.bar, self.min_width)
        return width, top + self.rows * self.cell + self.gap

    def corner(self, panel: int) -> tuple[int, int]:
        """Return the upper left corner of a panel's first cell."""
        row, column = divmod(panel, self.across)
        x = self.left + column * (self.columns * self.cell + self.gap)
        y = self.top + self.heading + row * (self.rows * self.cell + self.heading + self.gap)
        return x, y

    def box(self, row: int, column: int, *, panel: int = 0) -> Box:
        """Return left, top, right and bottom of a cell, right and bottom exclusive."""
        x, y = self.corner(panel)
        x = x + column * self.cell
        y = y + row * self.cell
        inner = self.cell - (self.cell >= 12)
        return x, y, x + inner, y + inner


def heatmap(
    weights: npt.ArrayLike,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str = "",
    peak: float | None = None,
    limit: int = LABEL,
) -> Image.Image:
    """Draw weights [T, S] with a label per row (top to bottom) and column, and a colour bar.

    The scale runs from 0 (paper) to `peak` (dark violet), by default the highest weight of the map.
    Labels have at most `limit` columns of text.

    Raises:
        ValueError: the number of labels is wrong, or the map is empty.
    """
    array = validate_weights(weights, rows=rows, columns=columns)
    return _draw([array], rows, columns, title=title, headings=(), peak=peak, limit=limit)


def heatmap_grid(
    weights: npt.ArrayLike,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    titles: Sequence[str] | None = None,
    title: str = "",
) -> Image.Image:
    """Draw maps [H, T, S], such as the heads of a layer, as panels with common labels and one
    scale.

    Raises:
        ValueError: the number of labels or titles is wrong, or there are no maps.
    """
    maps = [
        validate_weights(head, rows=rows, columns=columns)
        for head in np.asarray(weights, dtype=np.float64)
    ]
    headings = [f"head {head}" for head in range(len(maps))] if titles is None else titles
    if not len(maps) == len(headings) > 0:
        raise ValueError(
            f"needs maps and one title for each, got {len(headings)} titles and {len(maps)} maps"
        )
    return _draw(maps, rows, columns, title=title, headings=headings)


def heatmap_layout(
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    panels: int = 1,
    headings: bool = False,
    title: str = "",
    limit: int = LABEL,
) -> HeatmapLayout:
    """Return the layout of `heatmap` or, with panels and headings, of `heatmap_grid`."""
    cell = 24 if panels == 1 else 16
    width = len(columns) * cell
    height = len(rows) * cell
    across = min(panels, max(1, round(math.sqrt(panels * height / width * 1.6))))
    # rows of equal length if possible: 2 and 2, not 3 and 1
    across = math.ceil(panels / math.ceil(panels / across))
    cell = max(2, min(cell, SIDE // (across * len(columns)), SIDE // len(rows)))
    return HeatmapLayout(
        rows=len(rows),
        columns=len(columns),
        panels=panels,
        across=across,
        cell=cell,
        left=_label_width(labels_of(rows, limit=limit)) + 14,
        top=_label_width(labels_of(columns, limit=limit)) + 14 + (26 if title else 0),
        heading=20 if headings else 0,
        min_width=label_of(title, limit=TITLE).width + 20,
    )


def _draw(
    maps: Sequence[npt.NDArray[np.float64]],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str,
    headings: Sequence[str],
    peak: float | None = None,
    limit: int = LABEL,
) -> Image.Image:
    layout = heatmap_layout(
        rows, columns, panels=len(maps), headings=bool(headings), title=title, limit=limit
    )
    image = Image.new("RGB", layout.size, PAPER)
    draw = ImageDraw.Draw(image)
    peak = peak or highest_weight(*maps)
    for panel, weights in enumerate(maps):
        image.paste(_cells(to_colours(weights / peak), layout.cell), layout.corner(panel))
    for panel, heading in enumerate(labels_of(headings, limit=LABEL)):
        x, y = layout.corner(panel)
        _paste(image, heading.mask(), (x, y - 4 - HEIGHT))
    row_labels = labels_of(rows, limit=limit)
    column_labels = labels_of(columns, limit=limit)
    for panel in range(0, len(maps), layout.across):
        _row_labels(image, row_labels, layout, panel)
    for panel in range(layout.across):
        _column_labels(image, column_labels, layout, panel)
    if title:
        _paste(image, label_of(title, limit=TITLE).mask(), (10, 6))
    _colour_bar(image, draw, layout, peak)
    return image


def _cells(colours: npt.NDArray[np.uint8], cell: int) -> Image.Image:
    pixels = colours.repeat(cell, axis=0).repeat(cell, axis=1)  # [T * cell, S * cell, 3]
    if cell >= 12:
        pixels[cell - 1 :: cell] = PAPER
        pixels[:, cell - 1 :: cell] = PAPER
    return Image.fromarray(pixels)


def _row_labels(
    image: Image.Image, labels: Sequence[Label], layout: HeatmapLayout, panel: int
) -> None:
    for row in range(0, len(labels), _label_interval(layout)):
        x, y, _, bottom = layout.box(row, 0, panel=panel)
        mask = labels[row].mask()
        _paste(image, mask, (x - 6 - mask.width, (y + bottom - HEIGHT) // 2))


def _column_labels(
    image: Image.Image, labels: Sequence[Label], layout: HeatmapLayout, panel: int
) -> None:
    for column in range(0, len(labels), _label_interval(layout)):
        x, y, right, _ = layout.box(0, column, panel=panel)
        mask = labels[column].turned()
        _paste(image, mask, ((x + right - mask.width) // 2, y - layout.heading - 6 - mask.height))


def _paste(image: Image.Image, mask: Image.Image, corner: tuple[int, int]) -> None:
    """Draw a label at its upper left corner."""
    x, y = corner
    image.paste(INK, (x, y, x + mask.width, y + mask.height), mask)


def _colour_bar(
    image: Image.Image, draw: ImageDraw.ImageDraw, layout: HeatmapLayout, peak: float
) -> None:
    font = fonts()[0]
    x, y = layout.corner(layout.across - 1)
    x += layout.columns * layout.cell + layout.gap
    height = max(layout.rows * layout.cell, 24)
    shades = to_colours(np.linspace(1, 0, height))[:, None].repeat(10, axis=1)  # [height, 10, 3]
    image.paste(Image.fromarray(shades), (x, y))
    draw.text((x + 14, y), f"{peak:.2g}", fill=INK, font=font, anchor="lt")
    draw.text((x + 14, y + height), "0", fill=INK, font=font, anchor="lb")


def _label_interval(layout: HeatmapLayout) -> int:
    """Return n such that the labels of every n-th row and column do not overlap."""
    return math.ceil(14 / layout.cell)


def _label_width(labels: Sequence[Label]) -> int:
    return max(label.width for label in labels)
