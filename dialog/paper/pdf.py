"""Charts as PDF: vector graphics with embedded fonts, cropped to what is drawn.

matplotlib, of the extra `paper`, writes the file with its own font, so figures look the same on all
machines.
"""

from __future__ import annotations

import math
import re
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

from dialog.atomic import replacing
from dialog.errors import UserError, install

POINTS = 0.75
"""Points per unit of a chart, as browsers have it."""
FONT = "DejaVu Sans"
FONT_SIZE = 11.0
"""Units; the 12 of a chart are those of a narrower font."""
INK = "#1c2026"
MARGIN = 2.0
"""Points around the drawing."""
SETTINGS = {"pdf.fonttype": 42, "font.family": [FONT], "path.simplify": False}
"""Type 42: fonts are embedded as TrueType, which publishers accept, unlike Type 3."""
TURN = re.compile(r"rotate\((-?\d+)")
ALIGNMENTS = {"start": "left", "middle": "center", "end": "right"}


def check_drawing() -> None:
    """Check that figures can be written.

    Raises:
        UserError: matplotlib is missing.
    """
    _module("matplotlib")


def write_pdf(path: Path, svg: str) -> None:
    """Write a chart, SVG of `Canvas`, as a page of its own size, in the colours of a light page.

    Characters that the font lacks are written as code points.

    Raises:
        UserError: matplotlib is missing.
        ValueError: an element that `Canvas` does not draw.
    """
    library = _module("matplotlib")
    root = Xml.fromstring(svg)
    width = float(root.attrib["width"])
    height = float(root.attrib["height"])
    with library.rc_context(SETTINGS):
        figure = _module("matplotlib.figure").Figure(
            figsize=(width * POINTS / 72, height * POINTS / 72), dpi=72
        )
        # parts of the page, which cropping moves
        shares = _module("matplotlib.transforms").Affine2D().scale(1 / width, -1 / height)
        place = shares.translate(0, 1) + figure.transFigure
        for element in root.iter():
            if artist := _artist(element):
                artist.set_transform(place)
                figure.add_artist(artist)
        with replacing(path) as new:
            figure.savefig(
                new,
                format="pdf",
                transparent=True,
                bbox_inches="tight",
                pad_inches=MARGIN / 72,
                metadata={"Title": root.attrib["aria-label"], "CreationDate": None},
            )


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise UserError(f"--paper needs matplotlib for figures; run {install('paper')}") from error


def _artist(element: Xml.Element) -> Any:
    """Return what draws an element; None for one that only contains others, or a tooltip."""
    tag = element.tag.rpartition("}")[2]
    values = element.attrib
    if tag in ("svg", "title"):
        return None
    if tag == "text":
        return _text(element)
    if tag == "polyline":
        dashes = [float(part) * POINTS for part in values.get("stroke-dasharray", "").split()]
        return _module("matplotlib.lines").Line2D(
            *zip(*_points(values), strict=True),
            color=_colour(values["stroke"]),
            linewidth=float(values["stroke-width"]) * POINTS,
            alpha=float(values["opacity"]),
            linestyle=(0, tuple(dashes)) if dashes else "-",
            solid_joinstyle="round",
            solid_capstyle="butt",
        )
    patches = _module("matplotlib.patches")
    fill = values["fill"]
    style = {
        "facecolor": "none" if fill == "none" else _colour(fill),
        "edgecolor": _colour(values["stroke"]) if "stroke" in values else "none",
        "linewidth": float(values.get("stroke-width", 0)) * POINTS,
        "alpha": float(values["opacity"]) if "opacity" in values else None,
    }
    if tag == "polygon":
        return patches.Polygon(_points(values), **style)
    if tag == "circle":
        return patches.Circle(
            (float(values["cx"]), float(values["cy"])), float(values["r"]), **style
        )
    if tag == "rect":
        corner = (float(values["x"]), float(values["y"]))
        return patches.Rectangle(corner, float(values["width"]), float(values["height"]), **style)
    raise ValueError(f"no element of a chart: {tag}")


def _text(element: Xml.Element) -> Any:
    """Return one line of text; formulas and tooltips have no meaning here."""
    values = element.attrib
    text = (element[0].tail if len(element) else element.text) or ""
    turned = TURN.match(values.get("transform", ""))
    return _module("matplotlib.text").Text(
        float(values["x"]),
        float(values["y"]),
        _with_glyphs(text),
        color=INK,
        fontsize=FONT_SIZE * POINTS,
        fontweight="bold" if "font-weight" in values else "normal",
        horizontalalignment=ALIGNMENTS[values["text-anchor"]],
        verticalalignment="baseline",
        rotation=-float(turned[1]) if turned else 0.0,
        rotation_mode="anchor",
        parse_math=False,
    )


def _with_glyphs(text: str) -> str:
    """Write the characters that the font lacks as code points."""
    fonts = _module("matplotlib.font_manager")
    known = fonts.get_font(fonts.findfont(FONT)).get_charmap()
    return "".join(char if ord(char) in known else f"[U+{ord(char):04X}]" for char in text)


def _points(values: dict[str, str]) -> list[tuple[float, float]]:
    pairs = (pair.split(",") for pair in values["points"].split())
    points = [(float(x), float(y)) for x, y in pairs]
    return [point for point in points if all(map(math.isfinite, point))]


def _colour(name: str) -> str:
    return INK if name == "currentColor" else name
