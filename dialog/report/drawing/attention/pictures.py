"""One attention map as SVG or PNG for a paper.

Shapes: H heads, T rows, S columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from dialog.config.components import lookup
from dialog.errors import UserError
from dialog.report.drawing.attention.packing import (
    NamedMap,
    TokenAxis,
    Weights,
    axes_of,
    by_character,
    first_turns,
    last_cross_attention,
    maps_of,
)
from dialog.report.drawing.attention.still import fold
from dialog.report.drawing.image import heatmap, heatmap_grid
from dialog.report.drawing.svg import heatmap_svg

MEAN = "mean"
"""The choice of the mean over heads."""
MOST_COLUMNS = 240
"""Columns of a picture; above, turns are folded from the first one on."""


class Picture(NamedTuple):
    """Map to draw: some heads, or their mean, of one module."""

    title: str
    weights: Weights  # [H, T, S]
    headings: list[str]  # empty if the module has a single head
    rows: Sequence[str]
    columns: Sequence[str]

    def svg(self) -> str:
        """Draw the mean over the chosen heads."""
        chosen = self.headings if len(self.headings) < 2 else ["mean over heads"]
        title = ", ".join([self.title, *chosen])
        return heatmap_svg(self.weights.mean(0), rows=self.rows, columns=self.columns, title=title)

    def png(self) -> Image.Image:
        """Draw every chosen head as a panel."""
        if not self.headings:
            return heatmap(self.weights[0], rows=self.rows, columns=self.columns, title=self.title)
        return heatmap_grid(
            self.weights,
            rows=self.rows,
            columns=self.columns,
            titles=self.headings,
            title=self.title,
        )


def picture(
    reading: Mapping[str, Any], layer: str | None = None, head: str | None = None
) -> Picture:
    """Return the chosen map: by default all heads of the last cross-attention, or of the last map
    without one.

    Raises:
        UserError: the map or head is unknown, or the response has no maps.
    """
    one = chosen_map(reading, layer)
    number = chosen_head(one, head)
    one, axes = by_character(one, axes_of(reading))
    if head is None:
        heads = one.weights
        chosen = [f"head {place}" for place in range(len(heads))]
    else:
        heads = one.weights.mean(0, keepdims=True) if number is None else one.weights[[number]]
        chosen = ["mean over heads" if number is None else f"head {number}"]
    headings = chosen if len(one.weights) > 1 else []
    title = one.name
    columns = axes[one.columns].tokens
    if one.columns == "source":
        folded, columns, heads = folded_heads(heads, axes["source"])
        title += f" ({first_turns(folded)} summed)" if folded else ""
    return Picture(title, heads, headings, axes[one.rows].tokens, columns)


def chosen_map(reading: Mapping[str, Any], layer: str | None) -> NamedMap:
    """Return the map of this name, by default the last cross-attention.

    Raises:
        UserError: unknown name, or no maps.
    """
    maps = maps_of(reading)
    if not maps:
        raise UserError("the run has no attention; there is nothing to draw")
    if layer is not None:
        return lookup({one.name: one for one in maps}, layer, "--layer")
    return last_cross_attention(reading) or maps[-1]


def chosen_head(one: NamedMap, head: str | None) -> int | None:
    """Return the number of a head; None for the mean over heads.

    Raises:
        UserError: the map lacks this head.
    """
    if head in (None, MEAN):
        return None
    return lookup(
        {str(number): number for number in range(len(one.weights))}, head, f"--head of {one.name}"
    )


def folded_heads(heads: Weights, axis: TokenAxis) -> tuple[int, list[str], Weights]:
    """Fold the first turns of wide maps [H, T, S]; return their number, the labels of columns and
    the weights.
    """
    parts = [fold(head, axis, most=MOST_COLUMNS) for head in heads]
    folded, (columns, _) = parts[0]
    return folded, columns, np.stack([weights for _, (_, weights) in parts])
