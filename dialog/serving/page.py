"""The web page: a chat, and the attention maps of its responses."""

from __future__ import annotations

from markupsafe import Markup

from dialog.report.drawing.attention.page import page_sources
from dialog.report.page import script_text, security_policy, style_sheet, templates
from dialog.report.terminal import printable

PACKAGE = "dialog.serving"


def chat_page(name: str, *, needs_key: bool) -> str:
    """Return the page of a model; it shows all texts of a chat as text, never as HTML.

    The maps are in a sandboxed frame without an origin. Frames inherit the policy, so it also allows their script.
    """
    script, sheet = script_text(PACKAGE, ("page.js",)), style_sheet(script_text(PACKAGE, ("page.css",)))
    map_script, map_sheet = page_sources()
    values = {
        "name": printable(name),
        "needs_key": needs_key,
        "policy": security_policy([script, map_script], [sheet, map_sheet], connects=True),
        "script": Markup(script),
        "style": Markup(sheet),
    }
    return templates(PACKAGE).get_template("page.html.j2").render(values)
