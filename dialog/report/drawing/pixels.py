"""Drawing on pixels with the methods of `Canvas`, for charts as PNG; in the colours of a light
page.
"""

from __future__ import annotations

import math
from itertools import pairwise

from PIL import Image, ImageColor, ImageDraw, ImageFont

from dialog.escaping import one_line
from dialog.report.drawing.canvas import INK, Colour, Point
from dialog.report.terminal import truncate

PAPER = (255, 255, 255)
TEXT = (28, 32, 38)
SHARP = 4
SCALE = 2
"""Pixels per unit while drawing, which makes edges smooth, and of the image."""
ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}
DASH = (6.0, 3.0)

Shade = tuple[int, int, int]


class PixelCanvas:
    """Image of a size in units of `SCALE` pixels."""

    def __init__(self, width: float, height: float) -> None:
        self.size = math.ceil(width), math.ceil(height)
        self._image = Image.new("RGB", (self.size[0] * SHARP, self.size[1] * SHARP), PAPER)
        self._draw = ImageDraw.Draw(self._image)
        self._font = ImageFont.load_default(12 * SHARP)

    def image(self) -> Image.Image:
        """Return the image."""
        return self._image.resize(
            (self.size[0] * SCALE, self.size[1] * SCALE), Image.Resampling.LANCZOS
        )

    def rectangle(self, corner: Point, size: Point, fill: Colour, *, tip: str = "") -> None:
        """Draw a filled rectangle."""
        (x, y) = corner
        (width, height) = size
        self._draw.rectangle(self._flat([(x, y), (x + width, y + height)]), fill=shade(fill, 1))

    def line(
        self,
        points: list[Point],
        colour: Colour = INK,
        *,
        width: float = 1,
        opacity: float = 1,
        dashed: bool = False,
        tip: str = "",
    ) -> None:
        """Draw a line through points."""
        parts = dashes(points) if dashed else [points]
        for part in parts:
            self._draw.line(
                self._flat(part),
                fill=shade(colour, opacity),
                width=round(width * SHARP),
                joint="curve",
            )

    def area(self, points: list[Point], colour: Colour, *, opacity: float, tip: str = "") -> None:
        """Fill the area inside a closed line through points."""
        self._draw.polygon(self._flat(points), fill=shade(colour, opacity))

    def dot(self, centre: Point, colour: Colour, *, tip: str = "") -> None:
        """Draw a small disc."""
        self._draw.ellipse(self._around(centre, 3.6), fill=shade(colour, 1))

    def ring(self, centre: Point, colour: Colour, *, tip: str = "") -> None:
        """Draw a small circle."""
        self._draw.ellipse(
            self._around(centre, 4.4), outline=shade(colour, 1), width=round(1.8 * SHARP)
        )

    def text(
        self,
        text: str,
        at: Point,
        *,
        anchor: str = "start",
        bold: bool = False,
        angle: int = 0,
        limit: int = 90,
    ) -> None:
        """Draw one line of text, rotated by 90 degrees if there is an angle; characters beyond
        ASCII are escaped.
        """
        line = truncate(one_line(text).encode("ascii", "backslashreplace").decode(), limit)
        x, y = (SHARP * part for part in at)
        stroke = SHARP // 4 if bold else 0
        if not angle:
            self._draw.text(
                (x, y),
                line,
                fill=TEXT,
                font=self._font,
                anchor=ANCHORS[anchor],
                stroke_width=stroke,
            )
            return
        width = math.ceil(self._font.getlength(line))
        mask = Image.new("L", (max(1, width), 16 * SHARP))
        ImageDraw.Draw(mask).text((0, 12 * SHARP), line, fill=255, font=self._font, anchor="ls")
        turned = mask.rotate(90, expand=True)
        shift = {"start": width, "middle": width // 2, "end": 0}[anchor]
        corner = (round(x) - 12 * SHARP, round(y) - shift)
        self._image.paste(
            TEXT, (*corner, corner[0] + turned.width, corner[1] + turned.height), turned
        )

    def _flat(self, points: list[Point]) -> list[Point]:
        return [(x * SHARP, y * SHARP) for x, y in points]

    def _around(self, centre: Point, radius: float) -> list[Point]:
        (x, y) = centre
        return self._flat([(x - radius, y - radius), (x + radius, y + radius)])


def shade(colour: Colour, opacity: float) -> Shade:
    """Return a colour over white."""
    red, green, blue = TEXT if colour is INK else ImageColor.getrgb(colour[0])[:3]
    red, green, blue = (round(opacity * part + (1 - opacity) * 255) for part in (red, green, blue))
    return red, green, blue


def dashes(points: list[Point]) -> list[list[Point]]:
    """Return the dashes of a line."""
    parts: list[list[Point]] = []
    for (x, y), (next_x, next_y) in pairwise(points):
        length = math.hypot(next_x - x, next_y - y)
        start = 0.0
        while start < length:
            end = min(length, start + DASH[0])
            parts.append(
                [
                    (x + (next_x - x) * place / length, y + (next_y - y) * place / length)
                    for place in (start, end)
                ]
            )
            start += sum(DASH)
    return parts
