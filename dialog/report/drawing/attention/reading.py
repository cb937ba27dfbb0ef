"""The attention maps of one response: the JSON of `dialog attention`, shown as a page by notebooks."""

from __future__ import annotations

import html
from typing import Any

FRAME_HEIGHT = 640
"""Pixels of the frame in a notebook; it can be resized."""


class AttentionReading(dict[str, Any]):
    """JSON of `dialog attention`: maps of every layer and head with their tokens."""

    def _repr_html_(self) -> str:
        """Return the page of the maps in a frame of its own.

        The frame is sandboxed, so that texts, styles and element ids of the page cannot meet those of a notebook.
        """
        from dialog.report.drawing.attention.page import attention_page

        page = html.escape(attention_page([("", self)], title=""))
        style = f"width: 100%; height: {FRAME_HEIGHT}px; border: 0; resize: vertical; overflow: auto"
        return f'<iframe sandbox="allow-scripts" style="{style}" title="Attention maps" srcdoc="{page}"></iframe>'
