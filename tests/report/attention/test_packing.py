"""Compact maps, and bertviz's view."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from dialog.errors import UserError
from dialog.report.drawing.attention.bertviz_view import bertviz_view
from dialog.report.drawing.attention.packing import pack
from dialog.report.drawing.attention.pictures import picture
from dialog.report.drawing.attention.still import still_map


@pytest.mark.parametrize(
    ("most", "shape", "note"),
    [
        (42, (2, 3, 7), ""),
        (41, (1, 3, 7), "mean over heads only"),
        (20, (1, 3, 3), "summed over turns"),
        (8, None, "left out"),
    ],
)
def test_maps_that_are_too_large_are_reduced(
    two_heads: dict[str, Any], most: int, shape: tuple[int, ...] | None, note: str
) -> None:
    packed = pack(two_heads, "", most_cells=most)
    assert [one["shape"] for one in packed["maps"]] == ([shape] if shape else [])
    assert [note in text for text in packed["notes"]] == [True] * bool(note)


def test_the_last_layers_are_kept_first(two_heads: dict[str, Any]) -> None:
    (one,) = two_heads["maps"]
    layers = [{**one, "name": name} for name in ("first", "second", "last")]
    packed = pack({**two_heads, "maps": layers}, "", most_cells=2 * 42)
    assert [one["name"] for one in packed["maps"]] == ["second", "last"]
    assert [text.partition(":")[0] for text in packed["notes"]] == ["first"]


def test_bertviz_gets_the_exact_weights(
    two_heads: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[dict[str, Any]] = []

    def head_view(**arguments: Any) -> SimpleNamespace:
        calls.append(arguments)
        return SimpleNamespace(
            data=f"<script>{arguments['encoder_tokens']!r}</script>".encode(
                "unicode_escape"
            ).decode()
        )

    fake = ModuleType("bertviz")
    fake.head_view = head_view
    monkeypatch.setitem(sys.modules, "bertviz", fake)
    page = bertviz_view(two_heads)
    (arguments,) = calls
    torch.testing.assert_close(
        arguments["cross_attention"][0],
        torch.tensor([two_heads["maps"][0]["weights"]]),
        atol=0,
        rtol=0,
    )
    assert arguments["decoder_tokens"] == ["▁I", "▁do", "\ue000/s>"]
    assert page.count("</") == 5, (
        "title, script, the line of a page offline and its script, html; none from a token"
    )
    assert "\\u003cself>" in page
    assert "could not be loaded from" in page, "what a reader without a network sees"


def test_bertviz_is_optional(two_heads: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bertviz", None)
    with pytest.raises(UserError, match=r"pip install -e '.\[bertviz\]'"):
        bertviz_view(two_heads)


def test_a_single_head_has_no_number_on_a_picture(two_heads: dict[str, Any]) -> None:
    single = {
        **two_heads,
        "maps": [{**one, "weights": one["weights"][:1]} for one in two_heads["maps"]],
    }
    assert ">decoder.attention, mean over heads<" in picture(two_heads).svg()
    assert ">decoder.attention, head 1<" in picture(two_heads, head="1").svg()
    assert ">decoder.attention<" in picture(single).svg()
    assert picture(single).png().size != picture(two_heads).png().size


def test_a_picture_has_whole_characters(two_heads: dict[str, Any]) -> None:
    """Columns of a character's tokens are summed, its rows averaged; turns stay."""
    emoji = {
        **two_heads,
        "context_tokens": ["<self>", "▁\\xf0\\x9f", "\\x98\\x80", "<other>", "▁you", "▁?", "</s>"],
        "response_tokens": ["\\xf0\\x9f\\x91", "\\x8d", "</s>"],
    }
    drawn = picture(emoji, head="0")
    assert drawn.columns == ["<self>", "▁😀", "<other>", "▁you", "▁?", "</s>"]
    assert drawn.rows == ["👍", "</s>"]
    expected = [[0.05, 0.25, 0, 0.6, 0, 0.1], [0, 0.1, 0, 0.1, 0, 0.8]]
    np.testing.assert_allclose(drawn.weights[0], expected, atol=1e-6)
    assert "👍" in drawn.svg()
    still = still_map(emoji, "")
    assert still is not None
    assert still.columns == drawn.columns
    assert [row[0] for row in still.rows] == drawn.rows


@pytest.mark.parametrize(
    ("count", "title"), [(2, "the first turn summed"), (3, "the first 2 turns summed")]
)
def test_a_wide_picture_names_the_summed_turns(
    count: int, title: str, two_heads: dict[str, Any]
) -> None:
    turns = [number for number in range(count) for _ in range(150)]
    wide = {
        "context_tokens": ["▁a"] * len(turns),
        "context_lines": turns,
        "context_kinds": ["word"] * len(turns),
        "turns": [{"speaker": "other", "text": "a"}] * count,
        "maps": [two_heads["maps"][0] | {"weights": [[[1 / len(turns)] * len(turns)] * 3]}],
    }
    assert f"({title})" in picture(two_heads | wide).svg()


def test_tooltips_have_the_labels_of_a_picture(two_heads: dict[str, Any]) -> None:
    assert "<title>_do → _you: " in picture(two_heads).svg()
