"""Attention statistics as one map of heads and statistics, and as a page."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from PIL import Image

from dialog.report.drawing.image import heatmap
from dialog.report.drawing.statistics.columns import (
    SUMMARIES,
    Statistics,
    groups_of,
    head_label,
    rows_with,
    sizes_text,
    values_of,
)
from dialog.report.drawing.svg import heatmap_svg
from dialog.report.page import printable_json, render_page


def statistics_svg(statistics: Statistics) -> str:
    """Draw the statistics [heads, statistics] on a scale from 0 to 1; negative correlations are drawn as 0."""
    return heatmap_svg(**_map(statistics), peak=1.0)


def statistics_image(statistics: Statistics) -> Image.Image:
    """Draw the same as an image."""
    return heatmap(**_map(statistics), peak=1.0)


def statistics_page(statistics: Statistics, *, title: str) -> str:
    """Return a page with the picture, all tables, and the similarity of heads; without scripts or a network."""
    safe = printable_json(statistics)
    groups = groups_of(safe)
    values = {
        "title": printable_json(title),
        "sizes": sizes_text(safe),
        "picture": Markup(statistics_svg(safe)),
        "tables": [
            {
                "title": name,
                "labels": [label for label, _ in group.values()],
                "rows": [(head_label(row), values_of(row, group)) for row in rows_with(safe, group)],
                "meanings": dict(group.values()),
            }
            for name, group in groups.items()
        ],
        "summaries": SUMMARIES,
        "similarity": [
            {
                "kind": pairs["kind"],
                "svg": Markup(heatmap_svg(pairs["matrix"], rows=labels, columns=labels, peak=1.0)),
            }
            for pairs in safe["similarity"]
            for labels in [[_short(name) for name in pairs["heads"]]]
        ],
    }
    return render_page("dialog.report.drawing.statistics", "statistics.html.j2", values)


def _map(statistics: Statistics) -> dict[str, Any]:
    """Return the arguments of a heat map."""
    columns = {name: text for group in groups_of(statistics).values() for name, (text, _) in group.items()}
    rows = [[np.nan if row.get(name) is None else row[name] for name in columns] for row in statistics["rows"]]
    weights: NDArray[np.float64] = np.array(rows, dtype=np.float64)
    return {
        "weights": weights,
        "rows": [_short(head_label(row)) for row in statistics["rows"]],
        "columns": list(columns.values()),
        "title": f"Attention on {statistics['split']}, {statistics['examples']:,} examples",
    }


def _short(label: str) -> str:
    """Return the name of a head without the words that all names share."""
    return label.replace("layers.", "").replace("_attention", "")
