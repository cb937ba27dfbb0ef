"""Maps of weights as images, drawn without matplotlib: milliseconds, so that they can be logged while a model trains.

Pillow's own font knows Latin letters only; any other character is written as its code point. `svg` has no such limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from dialog.report.drawing.scale import checked, ramp, top
from dialog.report.terminal import one_line, shortened

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
Box = tuple[int, int, int, int]

INK, PAPER = (28, 32, 38), (255, 255, 255)
LABEL, TITLE = 20, 100  # columns of text at most, the rest is cut
SIDE = 2400  # pixels at most for the cells of one line of panels, while a cell keeps two pixels


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things lie in a picture of `panels` maps of one shape, in pixels from the upper left corner.

    Attributes:
        across: panels side by side.
        cell: side of a cell, its one-pixel gap included where the cell has 12 pixels or more.
        left: space for the labels of rows; they stand once, left of each line of panels.
        top: space for title and labels of columns; they stand once, above the first line of panels.
        heading: height of the line above each panel, 0 where panels have no heading.
        narrowest: width that the title needs.
    """

    rows: int
    columns: int
    panels: int
    across: int
    cell: int
    left: int
    top: int
    heading: int
    narrowest: int
    gap: int = 14
    bar: int = 66

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the picture."""
        right, bottom = self.corner(self.across - 1)[0], self.corner(self.panels - 1)[1]
        return max(
            right + self.columns * self.cell + self.bar, self.narrowest
        ), bottom + self.rows * self.cell + self.gap

    def corner(self, panel: int) -> tuple[int, int]:
        """Upper left corner of a panel's first cell."""
        line, place = divmod(panel, self.across)
        x = self.left + place * (self.columns * self.cell + self.gap)
        y = self.top + self.heading + line * (self.rows * self.cell + self.heading + self.gap)
        return x, y

    def box(self, row: int, column: int, *, panel: int = 0) -> Box:
        """Left, top, right, bottom of a cell; right and bottom are the first pixels that it does not colour."""
        x, y = self.corner(panel)
        x, y = x + column * self.cell, y + row * self.cell
        inner = self.cell - (self.cell >= 12)
        return x, y, x + inner, y + inner


def heatmap(
    weights: npt.ArrayLike, *, rows: Sequence[str], columns: Sequence[str], title: str = "", peak: float | None = None
) -> Image.Image:
    """A map of weights [T, S] with a label for each row (top to bottom) and column, and a bar that explains colours.

    The scale runs from 0 (paper) to `peak` (dark violet), by default the greatest weight of the map.

    Raises:
        ValueError: labels that do not fit, or nothing to draw.
    """
    return _draw([checked(weights, rows=rows, columns=columns)], rows, columns, title=title, headings=(), peak=peak)


def heatmap_grid(
    weights: npt.ArrayLike,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    titles: Sequence[str] | None = None,
    title: str = "",
    peak: float | None = None,
) -> Image.Image:
    """Maps [H, T, S] of the same rows and columns as small multiples on one scale, such as the heads of a layer.

    Raises:
        ValueError: labels that do not fit, or nothing to draw.
    """
    maps = [checked(one, rows=rows, columns=columns) for one in np.asarray(weights, dtype=np.float64)]
    headings = [f"head {head}" for head in range(len(maps))] if titles is None else titles
    if not len(maps) == len(headings) > 0:
        raise ValueError(f"{len(headings)} titles for {len(maps)} maps")
    return _draw(maps, rows, columns, title=title, headings=headings, peak=peak)


def layout(
    rows: Sequence[str], columns: Sequence[str], *, panels: int = 1, headings: bool = False, title: str = ""
) -> Layout:
    """Where `heatmap` and, with panels and headings, `heatmap_grid` draw."""
    font = _font()
    cell = 24 if panels == 1 else 16
    width, height = len(columns) * cell, len(rows) * cell
    across = min(panels, max(1, round(math.sqrt(panels * height / width * 1.6))))
    cell = max(2, min(cell, SIDE // (across * len(columns)), SIDE // len(rows)))
    return Layout(
        rows=len(rows),
        columns=len(columns),
        panels=panels,
        across=across,
        cell=cell,
        left=_extent(font, _drawable(font, rows)) + 14,
        top=_extent(font, _drawable(font, columns)) + 14 + (26 if title else 0),
        heading=20 if headings else 0,
        narrowest=_extent(font, _drawable(font, [title], limit=TITLE)) + 20,
    )


def _draw(
    maps: Sequence[npt.NDArray[np.float64]],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str,
    headings: Sequence[str],
    peak: float | None,
) -> Image.Image:
    font = _font()
    place = layout(rows, columns, panels=len(maps), headings=bool(headings), title=title)
    image = Image.new("RGB", place.size, PAPER)
    pen = ImageDraw.Draw(image)
    peak = peak or top(*maps)
    for panel, weights in enumerate(maps):
        image.paste(_cells(ramp(weights / peak), place.cell), place.corner(panel))
    for panel, heading in enumerate(_drawable(font, headings)):
        x, y = place.corner(panel)
        pen.text((x, y - 4), heading, fill=INK, font=font, anchor="ld")
    rows, columns = _drawable(font, rows), _drawable(font, columns)
    for panel in range(0, len(maps), place.across):
        _row_labels(pen, font, rows, place, panel)
    for panel in range(place.across):
        _column_labels(image, font, columns, place, panel)
    if title:
        pen.text((10, 8), _drawable(font, [title], limit=TITLE)[0], fill=INK, font=font)
    _bar(image, pen, font, place, peak)
    return image


def _cells(colours: npt.NDArray[np.uint8], cell: int) -> Image.Image:
    pixels = colours.repeat(cell, axis=0).repeat(cell, axis=1)  # [T * cell, S * cell, 3]
    if cell >= 12:
        pixels[cell - 1 :: cell] = PAPER
        pixels[:, cell - 1 :: cell] = PAPER
    return Image.fromarray(pixels)


def _row_labels(pen: ImageDraw.ImageDraw, font: Font, labels: Sequence[str], place: Layout, panel: int) -> None:
    for row in range(0, len(labels), _every(place)):
        x, y, _, bottom = place.box(row, 0, panel=panel)
        pen.text((x - 6, (y + bottom) / 2), labels[row], fill=INK, font=font, anchor="rm")


def _column_labels(image: Image.Image, font: Font, labels: Sequence[str], place: Layout, panel: int) -> None:
    for column in range(0, len(labels), _every(place)):
        x, y, right, _ = place.box(0, column, panel=panel)
        stamp = _stamp(font, labels[column])
        corner = ((x + right - stamp.width) // 2, y - place.heading - 6 - stamp.height)
        image.paste(INK, (*corner, corner[0] + stamp.width, corner[1] + stamp.height), stamp)


def _bar(image: Image.Image, pen: ImageDraw.ImageDraw, font: Font, place: Layout, peak: float) -> None:
    x, y = place.corner(place.across - 1)
    x += place.columns * place.cell + place.gap
    height = max(place.rows * place.cell, 24)
    shades = ramp(np.linspace(1, 0, height))[:, None].repeat(10, axis=1)  # [height, 10, 3]
    image.paste(Image.fromarray(shades), (x, y))
    pen.text((x + 14, y), f"{peak:.2g}", fill=INK, font=font, anchor="lt")
    pen.text((x + 14, y + height), "0", fill=INK, font=font, anchor="lb")


def _every(place: Layout) -> int:
    """Label every n-th row and column, so that labels do not overlap."""
    return math.ceil(14 / place.cell)


def _stamp(font: Font, text: str) -> Image.Image:
    """The text as a mask, turned to be read from the bottom to the top unless it is one character."""
    mask = Image.new("L", (max(1, math.ceil(font.getlength(text))), 18))
    ImageDraw.Draw(mask).text((0, 13), text, fill=255, font=font, anchor="ls")
    return mask.rotate(90, expand=True) if len(text) > 1 else mask


def _extent(font: Font, labels: Sequence[str]) -> int:
    return max(math.ceil(font.getlength(label)) for label in labels)


def _drawable(font: Font, texts: Sequence[str], *, limit: int = LABEL) -> list[str]:
    r"""The texts with `\u4f60` for what the font cannot draw, cut to a length.

    The mark of a space, which the font lacks, becomes an underscore.
    """
    lines = [one_line(text) for text in texts]
    unknown = bytes(font.getmask("\U0010ffff"))
    drawn = {char: char for char in set().union(*lines) if bytes(font.getmask(char)) != unknown} | {"▁": "_"}
    return [shortened("".join(drawn.get(char) or f"\\u{ord(char):04x}" for char in line), limit) for line in lines]


def _font() -> Font:
    return ImageFont.load_default(13)
