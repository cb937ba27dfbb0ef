from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dialog.report.drawing.axes import SERIES, ticks
from dialog.report.drawing.canvas import write_svg
from dialog.report.drawing.charts import bands_svg, curves_svg
from dialog.report.drawing.scale import ON_LIGHT, to_colours, to_css
from dialog.report.drawing.svg import heatmap_svg

SVG = "{http://www.w3.org/2000/svg}"
ALLOWED = {f"{SVG}{tag}" for tag in ("svg", "rect", "text", "title", "polyline", "circle")}


def parse(svg: str) -> ElementTree.Element:
    image = ElementTree.fromstring(svg)  # raises unless well-formed
    assert {element.tag for element in image.iter()} <= ALLOWED
    assert not [
        name
        for element in image.iter()
        for name in element.attrib
        if name.startswith("on") or "href" in name
    ]
    assert image.get("role") == "img"
    assert image.get("aria-label")
    return image


def texts(image: ElementTree.Element) -> list[str]:
    return ["".join(element.itertext()) for element in image.iter(f"{SVG}text")]


def test_each_cell_has_its_weight_as_tooltip() -> None:
    weights = np.array([[0.25, 0.75, 0.0], [0.1, 0.2, 0.7]])
    image = parse(
        heatmap_svg(weights, rows=["a", "b"], columns=["x", "y", "z"], title="map", peak=1.0)
    )
    cells = [rect for rect in image.iter(f"{SVG}rect") if rect.find(f"{SVG}title") is not None]
    assert [cell.findtext(f"{SVG}title") for cell in cells][:2] == ["a → x: 0.250", "a → y: 0.750"]
    assert [cell.get("fill") for cell in cells] == [
        to_css(colour) for colour in to_colours(weights.ravel())
    ]
    corners = np.array([[float(cell.get(axis, "")) for axis in "yx"] for cell in cells]).reshape(
        2, 3, 2
    )
    assert (np.diff(corners[..., 0], axis=0) > 0).all(), "rows go down"
    assert (np.diff(corners[..., 1], axis=1) > 0).all(), "columns go right"
    assert {"a", "b", "x", "y", "z", "map"} <= set(texts(image))
    assert image.get("aria-label") == "map"


def test_the_highest_weight_ends_the_scale() -> None:
    image = parse(heatmap_svg([[0.01, 0.02]], rows=["a"], columns=["x", "y"]))
    assert [rect.get("fill") for rect in image.iter(f"{SVG}rect")][:2] == [
        to_css(to_colours(0.5)),
        ON_LIGHT[-1],
    ]
    assert "0.02" in texts(image)


@settings(max_examples=20)
@given(st.text(st.characters(), max_size=30))
def test_any_text_gives_well_formed_svg(text: str) -> None:
    parse(heatmap_svg([[1.0]], rows=[text], columns=[text], title=text))
    parse(curves_svg({text: [(0, 1), (1, 0)]}, x=text, y=text))


def test_hostile_text_adds_no_element() -> None:
    token = "</title></svg><script>alert(1)</script>\x00\x1b\u202e"
    image = parse(heatmap_svg([[1.0]], rows=[token], columns=["x"]))
    assert any(
        "</svg><script>" in "".join(element.itertext()) for element in image.iter(f"{SVG}text")
    )


def test_cells_are_inside_the_image() -> None:
    columns = [f"a very long token {n}" for n in range(9)]
    image = parse(heatmap_svg(np.zeros((2, 9)), rows=["a", "b"], columns=columns, title="t"))
    width, height = float(image.get("width", "")), float(image.get("height", ""))
    for rect in image.iter(f"{SVG}rect"):
        x, y, wide, high = (float(rect.get(name, "")) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + wide <= width
        assert 0 <= y <= y + high <= height


def test_labels_must_match_the_shape() -> None:
    with pytest.raises(ValueError, match="labels"):
        heatmap_svg([[1.0, 2.0]], rows=["a"], columns=["x"])


def lines(image: ElementTree.Element) -> list[ElementTree.Element]:
    """Return the lines of curves."""
    return [line for line in image.iter(f"{SVG}polyline") if line.find(f"{SVG}title") is not None]


def curve(points: list[tuple[float, float]]) -> str:
    return curves_svg({"lstm": points}, x="target tokens", y="bits per byte")


def test_a_curve_has_its_name_and_its_minimum() -> None:
    image = parse(curve([(0, 3), (50, 2), (100, 2.5)]))
    (line,) = lines(image)
    assert "lstm: lowest 2 at 50" in str(line.findtext(f"{SVG}title"))
    assert {"lstm", "target tokens", "bits per byte"} <= set(texts(image))


def test_points_match_the_axis_labels() -> None:
    image = parse(curve([(0, 0), (40, 2), (100, 4)]))
    points = [
        tuple(map(float, point.split(","))) for point in str(lines(image)[0].get("points")).split()
    ]
    label = {
        "".join(e.itertext()): (float(e.get("x", "")), float(e.get("y", "")))
        for e in image.iter(f"{SVG}text")
    }
    assert points[1][0] == pytest.approx(label["40"][0], abs=0.1)
    assert points[2][0] == pytest.approx(label["100"][0], abs=0.1)
    assert points[1][1] == pytest.approx(label["2"][1] - 4, abs=0.1), (
        "baseline of the label, 4 pixels lower"
    )
    assert points[0][1] > points[1][1] > points[2][1], "more is higher"


@pytest.mark.parametrize(
    "points", [[], [(5, 2)], [(0, 1), (1, 1)], [(0, math.nan), (1, 2), (2, math.inf)], [(0, 0)]]
)
def test_degenerate_curves(points: list[tuple[float, float]]) -> None:
    svg = curve(points)
    parse(svg)
    assert "nan" not in svg
    assert "inf" not in svg


def test_more_models_than_colours_are_distinct() -> None:
    number = len(SERIES) + 2
    image = ElementTree.fromstring(
        bands_svg({model: [[(0, model), (1, 0)]] for model in range(number)}, x="x", y="y")
    )
    looks = {
        (line.get("stroke"), line.get("stroke-dasharray"))
        for line in image.iter(f"{SVG}polyline")
        if line.get("stroke") != "currentColor"
    }
    assert len(looks) == number


@given(st.floats(-20, 20), st.floats(1e-3, 1e6))
def test_ticks_are_round_even_and_inside(start: float, span: float) -> None:
    low = start * span
    marks = ticks(low, low + span)
    assert 2 <= len(marks) <= 8
    assert all(low - span * 1e-6 <= mark <= low + span * (1 + 1e-6) for mark in marks)
    step = marks[1] - marks[0]
    assert np.diff(marks) == pytest.approx([step] * (len(marks) - 1), rel=1e-6)
    assert f"{step:.1e}"[0] in "125"
    assert all(abs(mark / step - round(mark / step)) < 1e-3 for mark in marks)


def test_ticks_of_an_empty_range() -> None:
    assert ticks(3, 3) == [3]


def test_a_file_has_colours_that_converters_know(tmp_path: Path) -> None:
    """CairoSVG fails, and svglib draws nothing, where a style has `light-dark`."""
    token = 'a style="b"'
    for svg in (
        heatmap_svg([[0.5]], rows=[token], columns=["x"], title=token),
        curves_svg({token: [(0, 1)]}, x="x", y="y"),
    ):
        write_svg(tmp_path / "a.svg", svg)
        image, inline = parse((tmp_path / "a.svg").read_text(encoding="utf-8")), parse(svg)
        assert [style for element in image.iter() if (style := element.get("style"))] == [
            "background:#fff"
        ]
        assert texts(image) == texts(inline)
        assert [element.get("fill") for element in image.iter()] == [
            element.get("fill") for element in inline.iter()
        ]
