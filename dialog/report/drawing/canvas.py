"""Drawing on SVG or on pixels with the same methods.

SVG is an XML tree, whose writer escapes the untrusted text of corpora.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as Xml

from PIL import Image, ImageColor, ImageDraw, ImageFont

from dialog.atomic import write_text
from dialog.escaping import one_line
from dialog.report.terminal import truncate

Point = tuple[float, float]
Colour = tuple[str, str]
"""Colour on a light page, and on a dark one if the page declares `color-scheme: light dark`."""

INK: Colour = ("currentColor", "currentColor")
STYLED = re.compile(r'(<[a-z]+ [^<>]*?) style="[^"]*"')
"""An element with a style; texts have neither "<" nor ">"."""

PAPER = (255, 255, 255)
TEXT = (28, 32, 38)
SHARP = 4
SCALE = 2
"""Pixels of an image per unit while it is drawn, which makes edges smooth, and at the end."""
ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}
DASH = (6.0, 3.0)
"""Units of a dash and of the gap after it."""

Shade = tuple[int, int, int]


class Canvas:
    """SVG image of a size in pixels; `label` is its text for screen readers."""

    def __init__(self, width: float, height: float, *, label: str) -> None:
        names = {
            "xmlns": "http://www.w3.org/2000/svg",
            "role": "img",
            "aria-label": one_line(label),
        }
        size = {"width": str(math.ceil(width)), "height": str(math.ceil(height))}
        size["viewBox"] = f"0 0 {size['width']} {size['height']}"
        style = {"font-family": "system-ui, sans-serif", "font-size": "12", "fill": "currentColor"}
        self._image = Xml.Element("svg", names | size | style)

    def rectangle(self, corner: Point, size: Point, fill: Colour, *, tip: str = "") -> None:
        """Draw a filled rectangle; `tip` is its tooltip."""
        (x, y) = corner
        (width, height) = size
        light, dark = fill
        position = {
            "x": f"{x:.5g}",
            "y": f"{y:.5g}",
            "width": f"{width:.4g}",
            "height": f"{height:.4g}",
        }
        self._add(
            "rect", position | {"fill": light, "style": f"fill:light-dark({light},{dark})"}, tip
        )

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
        path = {
            "points": " ".join(f"{x:.1f},{y:.1f}" for x, y in points),
            "fill": "none",
            "stroke-linejoin": "round",
        }
        dashes = {"stroke-dasharray": "6 3"} if dashed else {}
        self._add(
            "polyline", path | _stroke(colour, width) | {"opacity": f"{opacity:g}"} | dashes, tip
        )

    def area(self, points: list[Point], colour: Colour, *, opacity: float, tip: str = "") -> None:
        """Fill the area inside a closed line through points."""
        light, dark = colour
        path = {
            "points": " ".join(f"{x:.1f},{y:.1f}" for x, y in points),
            "fill": light,
            "opacity": f"{opacity:g}",
        }
        self._add("polygon", path | {"style": f"fill:light-dark({light},{dark})"}, tip)

    def dot(self, centre: Point, colour: Colour, *, tip: str = "") -> None:
        """Draw a small disc."""
        (x, y) = centre
        (light, dark) = colour
        position = {"cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": "3.6", "fill": light}
        self._add("circle", position | {"style": f"fill:light-dark({light},{dark})"}, tip)

    def ring(self, centre: Point, colour: Colour, *, tip: str = "") -> None:
        """Draw a small circle."""
        x, y = centre
        position = {"cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": "3.5", "fill": "none"}
        self._add("circle", position | _stroke(colour, 1.8), tip)

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
        """Draw one line of text, rotated by degrees; truncated to `limit` columns, with the full
        text as tooltip.
        """
        x, y = at
        position = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor}
        weight = {"font-weight": "600"} if bold else {}
        rotation = {"transform": f"rotate({angle} {x:.1f} {y:.1f})"} if angle else {}
        line = one_line(text)
        shown = truncate(line, limit)
        self._add("text", position | weight | rotation, "" if shown == line else line, shown)

    def __str__(self) -> str:
        return Xml.tostring(self._image, encoding="unicode")

    def _add(self, tag: str, attributes: dict[str, str], tip: str, text: str = "") -> None:
        element = Xml.SubElement(self._image, tag, attributes)
        if tip:
            title = Xml.SubElement(element, "title")
            title.text = one_line(tip)
            title.tail = text
        else:
            element.text = text


def _stroke(colour: Colour, width: float) -> dict[str, str]:
    light, dark = colour
    return {
        "stroke": light,
        "stroke-width": f"{width:g}",
        "style": f"stroke:light-dark({light},{dark})",
    }


class PixelCanvas:
    """Image of a size in units of `SCALE` pixels, in the colours of a light page."""

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


Drawing = Canvas | PixelCanvas
"""A canvas: charts are drawn with the methods that both have."""


def write_svg(path: Path, svg: str) -> None:
    """Write a drawing as a file with the colours of a light page, since only browsers know
    ``light-dark``.

    The background is white in a browser, and transparent in a paper.
    """
    plain = STYLED.sub(r"\1", svg)
    write_text(path, plain.replace("<svg ", '<svg style="background:#fff" ', 1))
