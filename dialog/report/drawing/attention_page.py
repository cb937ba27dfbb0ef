"""Attention maps of one response as pictures, and all of them on one page.

Shapes: H heads, T rows, S columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from PIL import Image

from dialog.report.drawing.image import heatmap_grid
from dialog.report.drawing.svg import heatmap_svg
from dialog.report.page import printable_json, render_page

BEGIN = "<s>"
"""The token that the decoder reads first."""


class HeadMaps(NamedTuple):
    """Heads of one attention module with the labels of rows and columns."""

    name: str
    kind: str
    heads: np.ndarray  # [H, T, S]
    rows: Sequence[str]
    columns: Sequence[str]

    def svg(self, head: int | None) -> str:
        """Draw one head, or the mean over heads."""
        weights = self.heads.mean(0) if head is None else self.heads[head]
        return heatmap_svg(weights, rows=self.rows, columns=self.columns, title=f"{self.name}, {head_name(head)}")


def head_name(head: int | None) -> str:
    """Return how a head is called on a picture."""
    return "mean over heads" if head is None else f"head {head}"


def figures(attention: Mapping[str, Any]) -> list[HeadMaps]:
    """Return the figures of the maps that `Run.attention` returns, cross-attention first, the last layer first."""
    response = attention["response_tokens"]
    rows = {"source": attention["context_tokens"], "turns": attention.get("context_turns", []), "target": response}
    columns = {**rows, "target": [BEGIN, *response[:-1]]}
    maps = [
        HeadMaps(one["name"], one["kind"], np.asarray(one["weights"]), rows[one["side"]], columns[one["columns"]])
        for one in reversed(attention["maps"])
    ]
    return sorted(maps, key=lambda figure: figure.kind != "cross")


def attention_svg(attention: Mapping[str, Any]) -> str:
    """Draw the mean over heads of the last cross-attention."""
    first = figures(attention)[0]
    return first.svg(None if len(first.heads) > 1 else 0)


def attention_image(attention: Mapping[str, Any]) -> Image.Image:
    """Draw all heads of the last cross-attention."""
    first = figures(attention)[0]
    return heatmap_grid(first.heads, rows=first.rows, columns=first.columns, title=first.name)


def attention_page(attention: Mapping[str, Any], *, title: str, context: Sequence[str], response: str) -> str:
    """Return a page with every map: the mean over heads, and each head; it needs neither scripts nor a network."""
    modules = [
        {
            "name": figure.name,
            "kind": figure.kind,
            "maps": [
                {"name": head_name(head), "svg": Markup(figure.svg(head))}
                for head in ((None,) if len(figure.heads) > 1 else ()) + tuple(range(len(figure.heads)))
            ],
        }
        for figure in figures(printable_json(attention))
    ]
    texts = printable_json({"title": title, "context": list(context), "response": response})
    return render_page("dialog.report.drawing", "attention.html.j2", {**texts, "modules": modules})
