"""Cross-attention of a reply as text: the strongest context tokens of each reply token, and a block
map.

Shapes: T reply tokens, S context tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dialog.data.tokenizers.labels import whole_characters
from dialog.data.tokenizers.tokenizer import OTHER, SELF, SPECIAL_TOKENS
from dialog.errors import UserError
from dialog.escaping import one_line
from dialog.report.drawing.attention.packing import AxisGroup, by_group
from dialog.report.formats.numbers import counted
from dialog.report.terminal import display_width, truncate

SHADES = " ░▒▓█"
STRONGEST = 3
SMALLEST = 0.01
LABEL = 14
"""Columns of a token's label."""
FRAME = 5
"""Lines around the two lists of reply tokens: title, note, heading and edge of the block map, and
the next prompt.
"""
FEWEST = 3
"""Reply tokens that are shown however low the terminal is."""
TURNS = (SPECIAL_TOKENS[OTHER], SPECIAL_TOKENS[SELF])


def attention_lines(
    maps: Mapping[str, Any], width: int, place: Sequence[int] = (), *, height: int | None = None
) -> list[str]:
    """Return the lines of a table and a block map of at most `width` columns, from the result of
    `Run.attention`; tokens of one character are one token.

    The first reply tokens are shown, as many as fit into `height`; a line counts the others.

    Args:
        maps: The maps of a reply.
        width: Columns of the terminal.
        place: Layer, or layer and head, counted from 0; the others are averaged.
        height: Lines of the terminal; None for all reply tokens.

    Raises:
        UserError: the network has no cross-attention over tokens, or not this layer or head.
    """
    title, weights = chosen_attention(maps, place)
    sources, targets = (
        [AxisGroup(*group) for group in whole_characters(maps[name])]
        for name in ("context_tokens", "response_tokens")
    )
    weights = by_group(by_group(weights, targets, axis=-2), sources, axis=-1)
    context = [group.label for group in sources]
    reply = [group.label for group in targets]
    shown = len(reply) if height is None else max(FEWEST, (height - FRAME) // 2)
    hidden = max(0, len(reply) - shown)
    note = f"{counted(hidden, 'more reply token')}: `python -m dialog attention` shows all"
    reply = reply[:shown]
    weights = weights[:shown]
    groups = max(1, min(len(context), width - LABEL - 3))
    bounds = [len(context) * group // groups for group in range(groups + 1)]
    starts = "".join(
        "┬" if any(token in TURNS for token in context[low:high]) else "─"
        for low, high in pairwise(bounds)
    )
    peak = float(weights.max()) or 1.0
    blocks = [
        "".join(shade(row[low:high].max() / peak) for low, high in pairwise(bounds))
        for row in weights
    ]
    table = [
        f"{label(token)}  {strongest(row, context)}"
        for token, row in zip(reply, weights, strict=True)
    ]
    rows = [f"{label(token)} │{row}│" for token, row in zip(reply, blocks, strict=True)]
    return [
        f"{title}: each reply token with its strongest context tokens",
        *(truncate(line, width) for line in table),
        (
            f"block map: {len(context)} context tokens from left to right, ┬ begins a turn,"
            f" {SHADES[-1]} is {peak:.2f}"
        ),
        f"{' ' * LABEL} ┌{starts}┐",
        *rows,
        *([truncate(note, width)] if hidden else []),
    ]


def chosen_attention(
    maps: Mapping[str, Any], place: Sequence[int]
) -> tuple[str, NDArray[np.float64]]:
    """Return a title and the cross-attention [T, S] of a layer or head, or the mean over what is
    not chosen.

    Raises:
        UserError: the network has none, or not this layer or head.
    """
    layers = [
        np.asarray(layer["weights"], dtype=np.float64)  # [H, T, S]
        for layer in maps["maps"]
        if layer["kind"] == "cross" and layer["side"] == "target" and layer["columns"] == "source"
    ]
    if not maps["maps"]:
        raise UserError("/why: this run has no attention")
    if not layers:
        raise UserError(
            "/why: the reply attends to no context tokens; `python -m dialog attention` shows all"
            " maps"
        )
    parts = []
    if place:
        _check_number("layer", place[0], len(layers))
        layers = [layers[place[0]]]
        parts.append(f"layer {place[0]}")
    if len(place) > 1:
        _check_number("head", place[1], len(layers[0]))
        layers = [layers[0][place[1]][None]]
        parts.append(f"head {place[1]}")
    # the networks of an ensemble can have different numbers
    heads = sorted({len(layer) for layer in layers})
    averaged = [f"{len(layers)} layers"] if len(layers) > 1 else []
    averaged += ["-".join(map(str, heads)) + " heads"] if heads[-1] > 1 else []
    if averaged:
        parts.append(f"mean of {' and '.join(averaged)}")
    mean: NDArray[np.float64] = np.mean([layer.mean(0) for layer in layers], axis=0)
    return ", ".join(["attention", *parts]), mean


def _check_number(noun: str, number: int, count: int) -> None:
    """Raise UserError unless the number is below the count."""
    if number >= count:
        raise UserError(f"/why: {noun} {number}; choose from 0 to {count - 1}")


def shade(weight: float) -> str:
    """Return a block that is darker the larger a weight in [0, 1] is; each shade covers a
    quarter.
    """
    return SHADES[min(len(SHADES) - 1, int(np.ceil(weight * (len(SHADES) - 1) - 0.25)))]


def strongest(row: NDArray[np.float64], context: Sequence[str]) -> str:
    """Return the context tokens with the largest weights of at least 0.01, largest first."""
    order = [
        place for place in np.argsort(-row, kind="stable")[:STRONGEST] if row[place] >= SMALLEST
    ]
    return "  ".join(f"{row[place]:.2f} {label(context[place])}" for place in order).rstrip()


def label(token: str) -> str:
    """Return a token, padded or truncated to `LABEL` columns."""
    text = truncate(one_line(token.strip("▁") or token), LABEL)
    return text + " " * (LABEL - display_width(text))
