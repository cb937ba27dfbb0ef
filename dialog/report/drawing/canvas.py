"""SVG drawing as an XML tree: the XML writer escapes the untrusted text of corpora."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Protocol
from xml.etree import ElementTree as Xml

from dialog.atomic import write_text
from dialog.escaping import one_line
from dialog.report.terminal import truncate

Point = tuple[float, float]
Colour = tuple[str, str]
"""Colour on a light page, and on a dark one if the page declares `color-scheme: light dark`."""

INK: Colour = ("currentColor", "currentColor")
STYLED = re.compile(r'(<[a-z]+ [^<>]*?) style="[^"]*"')
"""An element with a style; texts have neither "<" nor ">"."""


class Drawing(Protocol):
    """The methods that charts draw with: `Canvas` writes SVG, `PixelCanvas` an image."""

    def rectangle(self, corner: Point, size: Point, fill: Colour, *, tip: str = "") -> None:
        """Draw a filled rectangle."""

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

    def area(self, points: list[Point], colour: Colour, *, opacity: float, tip: str = "") -> None:
        """Fill the area inside a closed line through points."""

    def dot(self, centre: Point, colour: Colour, *, tip: str = "") -> None:
        """Draw a small disc."""

    def ring(self, centre: Point, colour: Colour, *, tip: str = "") -> None:
        """Draw a small circle."""

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
        """Draw one line of text."""


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


def write_svg(path: Path, svg: str) -> None:
    """Write a drawing as a file with the colours of a light page, since only browsers know
    ``light-dark``.

    The background is white in a browser, and transparent in a paper.
    """
    plain = STYLED.sub(r"\1", svg)
    write_text(path, plain.replace("<svg ", '<svg style="background:#fff" ', 1))
