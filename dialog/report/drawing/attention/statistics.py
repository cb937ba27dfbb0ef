"""Statistics of attention in groups with their labels and meanings: as text, picture and page."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from PIL import Image

from dialog.escaping import printable_json
from dialog.report.drawing.image import heatmap
from dialog.report.drawing.svg import heatmap_svg
from dialog.report.page import render_page
from dialog.report.tables import NONE

Statistics = Mapping[str, Any]
"""Content of `dialog attention --statistics --json`."""

GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Shape": {
        "entropy": (
            "entropy",
            "entropy of a row divided by log n for n tokens: 0 is one token, 1 is uniform",
        ),
        "sharpness": ("sharpness", "largest weight of a row"),
        "similarity": (
            "similarity",
            "mean cosine with the rows of the other heads of the same kind",
        ),
    },
    "Coverage": {
        "coverage": (
            "coverage",
            (
                "sum over source tokens of the mass on each, at most 1, divided by the shorter of"
                " both lengths"
            ),
        ),
        "repetition": (
            "repetition",
            "mass on what earlier response tokens have read (coverage loss)",
        ),
    },
    "Mass on kinds of tokens": {
        "mass_start": ("start", "mass on the first token"),
        "mass_end": ("end", "mass on the end token"),
        "mass_roles": ("roles", "mass on role tokens, or on the separators of turns"),
        "mass_punctuation": ("punctuation", "mass on tokens of punctuation or symbols alone"),
    },
    "Mass by distance of the turn": {
        f"mass_distance_{distance}": (
            label,
            "mass on a turn counted from the end of the context, of contexts that have such a turn",
        )
        for distance, label in enumerate(("last turn", "1 back", "2 back", "3 back", "4+ back"))
    },
    "Mass by turn": {
        f"mass_turn_{number}": (
            f"turn {turn}",
            (
                "mass on a turn counted from the beginning of the context, of contexts that have"
                " such a turn"
            ),
        )
        for number, turn in enumerate(("1", "2", "3", "4", "5+"), start=1)
    },
    "Agreement": {
        "erasure": (
            "erasure",
            (
                "rank correlation of weights with the change of log p when one source token is"
                " left out"
            ),
        ),
        "gradient": ("gradient", "rank correlation of weights with gradient x input"),
        "alignment_accuracy": (
            "accuracy",
            "share of copied tokens whose largest weight is on the token they copy",
        ),
        "alignment_error_rate": ("error rate", "alignment error rate against the gold alignment"),
    },
}
"""By the title of a group: for each statistic its label and its meaning."""
SUMMARIES = {
    "mean": "mean of all cross-attention heads",
    "rollout": "attention rollout through all layers (Abnar & Zuidema 2020)",
    "uniform": "equal weights on all source tokens, for comparison",
}
"""Rows that are no module."""
NARROW = 8
"""Columns of a number in a terminal, at least; one with a longer label is wider."""
HEAD = 60
"""Columns of text of the name of a head, which ends with its number."""


def groups_of(statistics: Statistics) -> dict[str, dict[str, tuple[str, str]]]:
    """Return the groups with the statistics that any row has."""
    groups = {}
    for title, group in GROUPS.items():
        defined = {name: text for name, text in group.items() if rows_with(statistics, (name,))}
        if defined:
            groups[title] = defined
    return groups


def head_label(row: Mapping[str, Any]) -> str:
    """Return ``module.head``, or the name of a summary."""
    return str(row["module"]) if row["module"] in SUMMARIES else f"{row['module']}.{row['head']}"


def values_of(row: Mapping[str, Any], group: Collection[str]) -> list[str]:
    """Return the values of a row for the statistics of a group; a dash where one is not defined."""
    return [NONE if row.get(name) is None else f"{row[name]:.3f}" for name in group]


def rows_with(statistics: Statistics, group: Collection[str]) -> list[Mapping[str, Any]]:
    """Return the rows that have any of these statistics."""
    return [row for row in statistics["rows"] if any(row.get(name) is not None for name in group)]


def sizes_text(statistics: Statistics) -> str:
    """Return what was measured, in one line."""
    size = (
        f"{statistics['split']}: {statistics['examples']:,} examples,"
        f" {statistics['target_tokens']:,} response tokens"
    )
    if sampled := statistics["sample"]["examples"]:
        size += f"; erasure and gradient on {sampled} of them"
    if (both := statistics["sample"].get("erasure_and_gradient")) is not None:
        size += f" (correlation with each other: {both:.3f})"
    return size


def statistics_lines(statistics: Statistics) -> Iterator[str]:
    """Yield a table per group, one line per head."""
    labels = {id(row): head_label(row) for row in statistics["rows"]}
    width = max(map(len, labels.values()))
    yield sizes_text(statistics)
    for title, group in groups_of(statistics).items():
        headings = [label for label, _ in group.values()]
        widths = [max(NARROW, len(heading) + 2) for heading in headings]
        first = max(width, len(title))
        yield ""
        yield _line(title, headings, first, widths)
        for row in rows_with(statistics, group):
            yield _line(labels[id(row)], values_of(row, group), first, widths)


def _line(label: str, cells: Sequence[str], first: int, widths: Sequence[int]) -> str:
    return f"{label:<{first}}" + "".join(
        f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)
    )


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
    return render_page("dialog.report.drawing.attention", "statistics.html.j2", values)


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
