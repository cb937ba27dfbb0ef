from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFont

from dialog.report.drawing.fonts import fonts, has, label_of
from dialog.report.drawing.image import SIDE, heatmap, heatmap_grid, heatmap_layout
from dialog.report.drawing.scale import MISSING, ON_LIGHT, to_colours, to_css

ROWS, COLUMNS = ["▁yes", ",", "</s>"], ["<other>", "▁how", "▁are", "▁you", "?"]


def colour(image: Image.Image, box: tuple[int, int, int, int]) -> str:
    """Return the colour of a uniform box."""
    pixels = np.asarray(image)[box[1] : box[3], box[0] : box[2]].reshape(-1, 3)
    assert len(pixels)
    assert (pixels == pixels[0]).all()
    return to_css(pixels[0])


@pytest.mark.parametrize(("row", "column"), [(0, 0), (0, 4), (2, 0), (1, 3), (2, 4)])
def test_a_weight_of_one_is_the_only_dark_cell(row: int, column: int) -> None:
    weights = np.zeros((3, 5))
    weights[row, column] = 1
    image = heatmap(weights, rows=ROWS, columns=COLUMNS)
    layout = heatmap_layout(ROWS, COLUMNS)
    for cell in np.ndindex(weights.shape):
        assert colour(image, layout.box(*cell)) == (
            ON_LIGHT[-1] if cell == (row, column) else ON_LIGHT[0]
        )


def test_every_cell_has_the_colour_of_its_weight() -> None:
    weights = np.random.default_rng(0).random((3, 5))
    image = heatmap(
        weights.tolist(), rows=ROWS, columns=COLUMNS, title="decoder.attention", peak=2.0
    )
    layout = heatmap_layout(ROWS, COLUMNS, title="decoder.attention")
    for cell in np.ndindex(weights.shape):
        assert colour(image, layout.box(*cell)) == to_css(to_colours(weights[cell] / 2))


def test_the_size_depends_on_the_layout_only() -> None:
    for title in ("", "a title " * 12):
        layout = heatmap_layout(ROWS, COLUMNS, title=title)
        for weights in (np.zeros((3, 5)), np.eye(3, 5)):
            image = heatmap(weights, rows=ROWS, columns=COLUMNS, title=title)
            assert image.size == layout.size
            assert image.mode == "RGB"
        assert layout.box(2, 4)[2] < layout.size[0]
        assert layout.box(2, 4)[3] < layout.size[1]


def test_labels_are_next_to_the_cells() -> None:
    drawn = np.asarray(heatmap(np.zeros((3, 5)), rows=ROWS, columns=COLUMNS)).min(axis=-1) < 128
    layout = heatmap_layout(ROWS, COLUMNS)
    left, top, _, bottom = layout.box(0, 0)
    assert drawn[top:bottom, :left].any(), "label of the first row"
    assert drawn[:top, left : layout.box(0, 0)[2]].any(), "label of the first column"
    assert not drawn[:, 0].any(), "no label is truncated at the edge"
    assert not drawn[0].any(), "no label is truncated at the edge"


def test_the_highest_weight_has_the_last_colour() -> None:
    image = heatmap([[0.01, 0.02]], rows=["a"], columns=["b", "c"])
    assert colour(image, heatmap_layout(["a"], ["b", "c"]).box(0, 1)) == ON_LIGHT[-1]


def test_nan_is_grey() -> None:
    image = heatmap([[float("nan"), 1.0]], rows=["a"], columns=["b", "c"])
    assert colour(image, heatmap_layout(["a"], ["b", "c"]).box(0, 0)) == MISSING


@settings(max_examples=10)
@given(st.lists(st.text(st.characters(), max_size=8), min_size=1, max_size=4))
def test_any_text_can_be_a_label(labels: list[str]) -> None:
    assert (
        heatmap(np.zeros((1, len(labels))), rows=["x"], columns=labels, title=labels[0]).size[0] > 0
    )


def test_characters_missing_from_the_font_stay_distinct() -> None:
    one, other = (
        heatmap([[1.0]], rows=["a"], columns=[label]).tobytes() for label in ("你好", "你们")
    )
    assert one != other


def test_panels_share_one_scale() -> None:
    weights = np.zeros((6, 3, 5))
    for head in range(6):
        weights[head, head % 3, head % 5] = (head + 1) / 6
    image = heatmap_grid(
        weights, rows=ROWS, columns=COLUMNS, title="decoder.layers.0.cross_attention"
    )
    layout = heatmap_layout(
        ROWS, COLUMNS, panels=6, headings=True, title="decoder.layers.0.cross_attention"
    )
    assert image.size == layout.size
    for head in range(6):
        box = layout.box(head % 3, head % 5, panel=head)
        assert colour(image, box) == to_css(to_colours((head + 1) / 6)), "one scale for all heads"
        for cell in np.argwhere(weights[head] == 0).tolist():
            assert colour(image, layout.box(*cell, panel=head)) == ON_LIGHT[0]
    boxes = {layout.box(0, 0, panel=head)[:2] for head in range(6)}
    assert len(boxes) == 6


@pytest.mark.parametrize(("panels", "rows"), [(1, 1), (4, 2), (8, 2), (16, 4)])
def test_rows_of_panels_are_of_equal_length_if_possible(panels: int, rows: int) -> None:
    layout = heatmap_layout(["row"] * 12, ["column"] * 12, panels=panels)
    assert -(-panels // layout.across) == rows
    assert layout.across * rows == panels


@pytest.mark.parametrize("titles", [None, ["first", "second"]])
def test_titles_of_panels(titles: list[str] | None) -> None:
    assert heatmap_grid(np.zeros((2, 1, 1)), rows=["a"], columns=["b"], titles=titles)
    with pytest.raises(ValueError, match="titles"):
        heatmap_grid(np.zeros((2, 1, 1)), rows=["a"], columns=["b"], titles=["one"])
    with pytest.raises(ValueError, match="maps"):
        heatmap_grid([], rows=["a"], columns=["b"])


def test_a_long_dialogue_fits_into_an_image() -> None:
    rows, columns = [f"r{n}" for n in range(300)], [f"c{n}" for n in range(1000)]
    layout = heatmap_layout(rows, columns)
    assert layout.cell == SIDE // 1000
    weights = np.zeros((300, 1000))
    weights[299, 999] = 1
    image = heatmap(weights, rows=rows, columns=columns)
    assert image.size == layout.size
    assert colour(image, layout.box(299, 999)) == ON_LIGHT[-1]


@pytest.mark.parametrize("text", ["שלום", "مرحبا", "你好", "😀", "ok🎉!", "naïve ∀x", "नमस्ते"])
def test_a_label_has_fonts_or_names_of_characters(text: str) -> None:
    label = label_of(text, limit=80)
    assert all(has(part.font, char) for part in label.parts for char in part.text)
    assert (
        label.text in (text, text.encode("ascii", "backslashreplace").decode())
        or "\\u" in label.text
        or ":party popper:" in label.text
    )


def test_a_label_has_the_font_of_each_character(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a font of large coloured pictures, which are drawn as high as the others."""
    plain = fonts()[0]
    assert isinstance(plain, ImageFont.FreeTypeFont)
    large = plain.font_variant(size=109)
    monkeypatch.setattr("dialog.report.drawing.fonts.fonts", lambda: (plain, large))
    monkeypatch.setattr(
        "dialog.report.drawing.fonts.has", lambda font, char: (font is large) == (char == "A")
    )
    label_of.cache_clear()
    label = label_of("xAx", limit=40)
    assert [part.text for part in label.parts] == ["x", "A", "x"]
    assert abs(label.width - plain.getlength("xAx")) < 3
    assert label.mask().size == (label.width, 18)
    assert label.mask().crop((8, 0, 15, 18)).getbbox() is not None
    label_of.cache_clear()


def test_without_fonts_of_the_system_code_points_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dialog.report.drawing.fonts.fonts", lambda: fonts()[:1])
    assert label_of("你▁😀", limit=40).text == "\\u4f60_:grinning face:"


def test_right_to_left_letters_need_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    has.cache_clear()
    monkeypatch.setattr("dialog.report.drawing.fonts.features.check", lambda _: False)
    assert label_of("שa", limit=40).text == "\\u05e9a"
    has.cache_clear()
