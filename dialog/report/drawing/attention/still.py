"""A map without scripts: a table with one coloured cell per weight, and the strongest context
tokens as text.

Shapes: T rows, S columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dialog.report.drawing.attention.packing import (
    AxisGroup,
    TokenAxis,
    Weights,
    axes_of,
    by_character,
    last_cross_attention,
)
from dialog.report.drawing.scale import ON_DARK, ON_LIGHT, to_colours, to_css

SHADES = 32
"""Colours of a cell; each is a class of the style sheet."""
MOST_COLUMNS = 120
MOST_ROWS = 120
"""Cells of a table; above, turns are folded from the first one on, and rows are left out."""
STRONGEST = 3


class StillCell(NamedTuple):
    """Weight of a cell as text and as the number of its colour."""

    shade: int
    weight: str


class StillMap(NamedTuple):
    """Table of the mean over heads of the last cross-attention."""

    label: str
    name: str
    heads: int
    peak: str  # highest weight, at the end of the colour scale
    columns: list[str]
    folded: int  # number of turns that are one column
    omitted: int  # number of rows that are left out
    # token, cells, strongest tokens and their weights
    rows: list[tuple[str, list[StillCell], list[tuple[str, str]]]]


def still_map(reading: Mapping[str, Any], label: str, *, rows: int = MOST_ROWS) -> StillMap | None:
    """Return the table of one response with at most `rows` rows; None without cross-attention."""
    last = last_cross_attention(reading)
    if last is None:
        return None
    last, axes = by_character(last, axes_of(reading))
    weights = last.weights.mean(0)[:rows]  # [T, S]
    folded, columns = fold(weights, axes["source"])
    peak = columns[1].max()
    shades = np.rint((SHADES - 1) * columns[1] / (peak or 1)).astype(int)
    lines = [
        (
            token,
            [
                StillCell(int(shade), f"{weight:.3f}")
                for shade, weight in zip(shades[place], row, strict=True)
            ],
            _strongest(weights[place], axes["source"].tokens),
        )
        for place, (token, row) in enumerate(zip(axes["target"].tokens, columns[1], strict=False))
    ]
    omitted = last.weights.shape[1] - len(weights)
    return StillMap(
        label, last.name, len(last.weights), f"{peak:.3f}", columns[0], folded, omitted, lines
    )


def fold(
    weights: Weights, axis: TokenAxis, *, most: int = MOST_COLUMNS
) -> tuple[int, tuple[list[str], Weights]]:
    """Replace as many of the first turns by one column each, their sum, as leaves at most `most`
    columns.

    Returns:
        The number of turns that were folded, the labels and the weights of the columns.
    """
    sizes = [group.end - group.first for group in axis.groups]
    count = next((n for n in range(len(sizes)) if n + sum(sizes[n:]) <= most), len(sizes))
    start = axis.groups[count].first if count < len(sizes) else len(axis.tokens)
    if not count:
        return 0, (axis.tokens, weights)
    folded = axis.groups[:count]
    sums = np.stack([weights[:, group.first : group.end].sum(1) for group in folded], axis=1)
    labels = [*map(_folded_label, folded), *axis.tokens[start:]]
    return count, (labels, np.concatenate([sums, weights[:, start:]], axis=1))


def shade_styles() -> str:
    """Return the style sheet of the shades."""
    steps = np.linspace(0, 1, SHADES)
    pairs = zip(to_colours(steps, ON_LIGHT), to_colours(steps, ON_DARK), strict=True)
    return "\n".join(
        f".w{step} {{ background: light-dark({to_css(light)}, {to_css(dark)}); }}"
        for step, (light, dark) in enumerate(pairs)
    )


def _folded_label(group: AxisGroup) -> str:
    return f"{group.label} ({group.end - group.first})"


def _strongest(row: Weights, tokens: Sequence[str]) -> list[tuple[str, str]]:
    order = np.argsort(-row, kind="stable")[:STRONGEST]
    return [(tokens[place], f"{row[place]:.2f}") for place in order]
