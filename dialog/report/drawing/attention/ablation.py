"""Importance of attention heads and ablation curve, as text, picture and page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from markupsafe import Markup

from dialog.escaping import printable_json
from dialog.report.drawing.charts import curves_svg
from dialog.report.page import render_page

Ablation = Mapping[str, Any]
"""Content of `dialog attention --importance --json`."""


def ablation_svg(ablation: Ablation, *, title: str) -> str:
    """Draw bits per byte against the number of heads that are left."""
    points = [
        (float(point["heads_left"]), float(point["bits_per_byte"]))
        for point in reversed(ablation["curve"])
    ]
    return curves_svg({title: points}, x="heads left", y="bits per byte")


def ablation_lines(ablation: Ablation) -> Iterator[str]:
    """Yield a table of the heads, the most important one first, and the curve."""
    names = [f"{head['module']}.{head['head']}" for head in ablation["heads"]]
    width = max(map(len, names)) + 2
    yield sizes_text(ablation)
    yield ""
    yield f"{'head':<{width}}{'importance':>13}{'normalised':>13}"
    for name, head in zip(names, ablation["heads"], strict=True):
        yield f"{name:<{width}}{head['importance']:>13.4f}{head['normalised']:>13.3f}"
    yield ""
    yield f"{'heads left':>10}{'bits per byte':>16}{'change':>10}"
    first = ablation["curve"][0]["bits_per_byte"]
    for point in ablation["curve"]:
        change = point["bits_per_byte"] - first
        yield f"{point['heads_left']:>10}{point['bits_per_byte']:>16.4f}{change:>+10.4f}"


def ablation_page(ablation: Ablation, *, title: str) -> str:
    """Return a page with the curve and the table; without scripts or a network."""
    other = ablation["split"] != ablation["ranking_split"]
    safe = printable_json(
        {"title": title, "heads": ablation["heads"], "curve": ablation["curve"], "other": other}
    )
    values = {
        **safe,
        "sizes": sizes_text(ablation),
        "picture": Markup(ablation_svg(ablation, title=title)),
    }
    return render_page("dialog.report.drawing.attention", "ablation.html.j2", values)


def sizes_text(ablation: Ablation) -> str:
    """Return what was measured, in one line."""
    return (
        f"importance: {ablation['ranking_examples']:,} examples of {ablation['ranking_split']}; "
        f"bits per byte: {ablation['examples']:,} examples of {ablation['split']}"
    )
