"""The web page: a chat, and the attention maps of its responses."""

from __future__ import annotations

from dialog.escaping import printable
from dialog.report.drawing.attention.page import page_sources
from dialog.report.page import joined, render_page

PACKAGE = "dialog.serving"


def chat_page(name: str, *, needs_key: bool) -> str:
    """Return the page of a model; it shows all texts of a chat as text, never as HTML.

    The maps are in a sandboxed frame without an origin.
    """
    return render_page(
        PACKAGE,
        "page.html.j2",
        {"name": printable(name), "needs_key": needs_key},
        scripts=("page.js",),
        style=joined(PACKAGE, ("page.css",)),
        framed=[page_sources()],
        connects=True,
    )
