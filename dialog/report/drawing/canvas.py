"""A drawing as an XML tree, whose writer escapes: text comes from corpora and is never pasted into a tag."""

from __future__ import annotations

import math
from xml.etree import ElementTree as Xml

from dialog.report.terminal import one_line, shortened

Point = tuple[float, float]
Colour = tuple[str, str]
"""On a light page, and on a dark one where the page declares `color-scheme: light dark`."""

INK: Colour = ("currentColor", "currentColor")


class Canvas:
    """An SVG picture of a size in pixels; `label` is what a screen reader says."""

    def __init__(self, width: float, height: float, *, label: str) -> None:
        wide, high = str(math.ceil(width)), str(math.ceil(height))
        names = {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "aria-label": one_line(label)}
        size = {"width": wide, "height": high, "viewBox": f"0 0 {wide} {high}"}
        style = {"font-family": "system-ui, sans-serif", "font-size": "12", "fill": "currentColor"}
        self._image = Xml.Element("svg", names | size | style)

    def rectangle(self, corner: Point, size: Point, fill: Colour, *, tip: str = "") -> None:
        """A filled rectangle; `tip` shows when the pointer rests on it."""
        (x, y), (width, height) = corner, size
        light, dark = fill
        place = {"x": f"{x:.5g}", "y": f"{y:.5g}", "width": f"{width:.4g}", "height": f"{height:.4g}"}
        self._add("rect", place | {"fill": light, "style": f"fill:light-dark({light},{dark})"}, tip)

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
        """A line through points."""
        path = {"points": " ".join(f"{x:.1f},{y:.1f}" for x, y in points), "fill": "none", "stroke-linejoin": "round"}
        dashes = {"stroke-dasharray": "6 3"} if dashed else {}
        self._add("polyline", path | _stroke(colour, width) | {"opacity": f"{opacity:g}"} | dashes, tip)

    def ring(self, centre: Point, colour: Colour, *, tip: str = "") -> None:
        """A small circle."""
        x, y = centre
        place = {"cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": "3.5", "fill": "none"}
        self._add("circle", place | _stroke(colour, 1.8), tip)

    def text(
        self, text: str, at: Point, *, anchor: str = "start", bold: bool = False, turn: int = 0, limit: int = 90
    ) -> None:
        """One line of text, turned by degrees around its anchor; what is cut after `limit` columns stays as a tip."""
        x, y = at
        place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor}
        weight = {"font-weight": "600"} if bold else {}
        rotation = {"transform": f"rotate({turn} {x:.1f} {y:.1f})"} if turn else {}
        line = one_line(text)
        shown = shortened(line, limit)
        self._add("text", place | weight | rotation, "" if shown == line else line, shown)

    def __str__(self) -> str:
        return Xml.tostring(self._image, encoding="unicode")

    def _add(self, tag: str, attributes: dict[str, str], tip: str, text: str = "") -> None:
        element = Xml.SubElement(self._image, tag, attributes)
        if tip:
            title = Xml.SubElement(element, "title")
            title.text, title.tail = one_line(tip), text
        else:
            element.text = text


def _stroke(colour: Colour, width: float) -> dict[str, str]:
    light, dark = colour
    return {"stroke": light, "stroke-width": f"{width:g}", "style": f"stroke:light-dark({light},{dark})"}
