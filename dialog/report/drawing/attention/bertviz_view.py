"""bertviz's view of all heads, if bertviz is installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dialog.errors import UserError, install
from dialog.escaping import printable_json
from dialog.report.drawing.attention.packing import ROLLOUT, axes_of, by_character, maps_of

LESS_THAN = "\ue000"
"""Stands for "<" in tokens until they are inside the script, where an escape sequence cannot end
it.
"""
OFFLINE = """<p hidden>
bertviz's libraries RequireJS, jQuery and d3 could not be loaded from cdnjs.cloudflare.com.</p>
<script>document.querySelector("body > p").hidden = "require" in window;</script>"""
"""The line that a reader without a network sees instead of an empty page."""


def bertviz_view(reading: Mapping[str, Any]) -> str:
    """Return bertviz's head view of cross-attention and encoder self-attention as HTML, from the
    exact weights.

    bertviz labels the rows and columns of decoder self-attention alike, but the decoder reads
    another token than it predicts, so those maps are left out. The page loads libraries from a
    network, and states if it cannot.

    Raises:
        UserError: bertviz is missing, or the response has no such maps.
    """
    try:
        from bertviz import head_view
    except ImportError as error:
        raise UserError(f"--bertviz: bertviz is not installed; {install('bertviz')}") from error
    import torch

    axes = axes_of(printable_json(reading))
    maps = [by_character(one, axes)[0] for one in maps_of(reading) if one.kind != ROLLOUT]
    parts = {
        "cross_attention": [one for one in maps if (one.rows, one.columns) == ("target", "source")],
        "encoder_attention": [
            one for one in maps if (one.rows, one.columns) == ("source", "source")
        ],
    }
    layers = {
        key: [torch.tensor(one.weights).unsqueeze(0) for one in part]
        for key, part in parts.items()
        if part
    }
    if not layers:
        raise UserError("--bertviz: the model has no attention over the tokens of the context")
    source, target = (
        [token.replace("<", LESS_THAN) for token in axes[name].by_character().tokens]
        for name in ("source", "target")
    )
    tokens = {"encoder_tokens": source} | (
        {"decoder_tokens": target} if "cross_attention" in layers else {}
    )
    shown = head_view(**layers, **tokens, prettify_tokens=False, html_action="return")
    escape = LESS_THAN.encode("unicode_escape").decode()
    body = str(shown.data).replace(escape, "\\u003c").replace(LESS_THAN, "&lt;")
    head = '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>bertviz</title>'
    return f"{head}\n{body}\n{OFFLINE}\n</html>\n"
