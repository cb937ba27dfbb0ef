"""Attention statistics as one map of heads and statistics, and as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from PIL import Image

from dialog.escaping import printable_json
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
from dialog.report.page import render_page

HEAD = 60
"""Columns of text of the name of a head, which ends with its number."""


def statistics_svg(statistics: Statistics) -> str:
    """Draw the statistics of cross-attention [heads, statistics] from 0 to 1; negative correlations
    are drawn as 0.

    Without cross-attention it draws self-attention.
    """
    return heatmap_svg(**_map(statistics, _parts(statistics)[0]))


def statistics_image(statistics: Statistics) -> Image.Image:
    """Draw the same as an image."""
    return heatmap(**_map(statistics, _parts(statistics)[0]))


def statistics_page(statistics: Statistics, *, title: str) -> str:
    """Return a page with the picture, all tables, and the similarity of heads; without scripts or a
    network.
    """
    safe = printable_json(statistics)
    groups = groups_of(safe)
    values = {
        "title": printable_json(title),
        "sizes": sizes_text(safe),
        "pictures": [Markup(heatmap_svg(**_map(safe, rows))) for rows in _parts(safe)],
        "tables": [
            {
                "title": name,
                "labels": [label for label, _ in group.values()],
                "rows": [
                    (head_label(row), values_of(row, group)) for row in rows_with(safe, group)
                ],
                "meanings": dict(group.values()),
            }
            for name, group in groups.items()
        ],
        "summaries": SUMMARIES,
        "similarity": [
            {
                "kind": pairs["kind"],
                "svg": Markup(
                    heatmap_svg(pairs["matrix"], rows=labels, columns=labels, peak=1.0, limit=HEAD)
                ),
            }
            for pairs in safe["similarity"]
            for labels in [[_short(name) for name in pairs["heads"]]]
        ],
    }
    return render_page("dialog.report.drawing.statistics", "statistics.html.j2", values)


def _parts(statistics: Statistics) -> list[list[Mapping[str, Any]]]:
    """Return the rows of cross-attention, which has more statistics, and those of self-attention,
    if there are any.
    """
    crosses = [row for row in statistics["rows"] if "coverage" in row]
    return [
        rows
        for rows in (crosses, [row for row in statistics["rows"] if "coverage" not in row])
        if rows
    ]


def _map(statistics: Statistics, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the arguments of a heat map of some rows."""
    groups = groups_of({"rows": rows}).values()
    columns = {name: text for group in groups for name, (text, _) in group.items()}
    values = [[np.nan if row.get(name) is None else row[name] for name in columns] for row in rows]
    weights: NDArray[np.float64] = np.array(values, dtype=np.float64)
    kind = "Cross-attention" if "coverage" in rows[0] else "Self-attention"
    return {
        "weights": weights,
        "rows": [_short(head_label(row)) for row in rows],
        "columns": list(columns.values()),
        "title": f"{kind} on {statistics['split']}, {statistics['examples']:,} examples",
        "peak": 1.0,
        "limit": HEAD,
    }


def _short(label: str) -> str:
    """Return the name of a head without the words that all names share."""
    return label.replace("layers.", "").replace("_attention", "")
