"""The attention maps of one response: written as the JSON of `dialog attention`, shown as a page by
notebooks.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from dialog.atomic import replacing
from dialog.escaping import to_json

FRAME_HEIGHT = 640
"""Pixels of the frame in a notebook; it can be resized."""


class AttentionReading(dict[str, Any]):
    """Fields of the JSON of `dialog attention`: maps of every layer and head with their tokens.

    ``weights`` [H, T, S] of each map and ``rollout`` [T, S] are float32 arrays.
    """

    def write_json(self, path: str | Path) -> None:
        """Write a JSON file in which each row of weights is a line; memory does not grow with the
        file.
        """
        with replacing(Path(path)) as new, new.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(self.json_pieces())

    def json_pieces(self) -> Iterator[str]:
        """Yield the text of the JSON file in pieces."""
        yield from _json_pieces(self)
        yield "\n"

    def _repr_html_(self) -> str:
        """Return the page of the maps in a frame of its own.

        The frame is sandboxed, so that texts, styles and element ids of the page cannot meet those
        of a notebook.
        """
        from dialog.report.drawing.attention.page import attention_page

        page = html.escape(attention_page([("", self)], title=""))
        style = (
            f"width: 100%; height: {FRAME_HEIGHT}px; border: 0; resize: vertical; overflow: auto"
        )
        return (
            f'<iframe sandbox="allow-scripts" style="{style}" title="Attention maps"'
            f' srcdoc="{page}"></iframe>'
        )


def _json_pieces(value: object) -> Iterator[str]:
    """Yield the JSON of a value in pieces, of an array one row at a time."""
    if isinstance(value, Mapping):
        items = (chain([f"{to_json(key)}: "], _json_pieces(item)) for key, item in value.items())
        yield from _joined("{}", items)
    elif isinstance(value, np.ndarray):
        yield from (
            [to_json(value.tolist())]
            if value.ndim == 1
            else _joined("[]", map(_json_pieces, value))
        )
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        yield from _joined("[]", map(_json_pieces, value))
    else:
        yield to_json(value)


def _joined(brackets: str, items: Iterable[Iterable[str]]) -> Iterator[str]:
    yield brackets[0]
    for place, pieces in enumerate(items):
        yield ",\n" if place else "\n"
        yield from pieces
    yield "\n" + brackets[1]
