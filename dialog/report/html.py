"""A comparison as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from dialog.atomic import write_text
from dialog.report.completion import complete
from dialog.report.drawing.axes import SERIES
from dialog.report.drawing.scale import highest_weight
from dialog.report.drawing.svg import heatmap_svg
from dialog.report.measures import METRIC_DISPLAYS, duration, hardware
from dialog.report.page import printable_json, render_page
from dialog.report.sections.order import appendix, main_sections
from dialog.report.sections.ratings import rating_fingerprint
from dialog.report.sections.scores import metric_names
from dialog.report.tables import Figure, Results, model_names, provenance
from dialog.report.terminal import truncate
from dialog.report.verdict import other_verdicts, verdict_lines

MOST_CELLS = 4000
"""Cells of all attention maps together, so that the page stays below 2 MB."""
MOST_TURNS, TURN_COLUMNS, RESPONSE_COLUMNS = 10, 400, 1000
"""Last turns of a context that are shown, and columns to which a turn and a response are truncated."""


def write_html(results: Results, path: Path) -> None:
    """Write a report of results.json; its texts are escaped and cannot add elements or addresses."""
    results = complete(results)
    values = template_values(printable_json(results), rating_fingerprint(results))
    write_text(path, render_page("dialog.report", "report.html.j2", values, scripts=("rating.js",)))


def template_values(results: Results, rating: str) -> dict[str, Any]:
    """Return the variables of the template; `rating` is the fingerprint of the pairs for rating."""
    return {
        "results": results,
        "names": model_names(results),
        "series": SERIES,
        "verdict": verdict_lines(results),
        "other_verdicts": other_verdicts(results),
        "facts": _facts(results),
        "sections": main_sections(results),
        "appendix": appendix(results),
        "examples": [
            ("Responses that differ most", [_short(sample) for sample in results["disagreements"]]),
            ("Random responses", [_short(sample) for sample in results["samples"]]),
        ],
        "maps": _maps(results),
        "rating": [_short(pair) | {"id": pair["id"]} for pair in results["rating"]],
        "rating_fingerprint": rating,
        "metrics": [METRIC_DISPLAYS[name] for name in metric_names(results) if name in METRIC_DISPLAYS],
        "provenance": lambda table: provenance(results, table.metrics),
        "drawings": _drawings,
    }


def _facts(results: Results) -> dict[str, str]:
    seeds = sorted({run["seed"] for model in results["models"] for run in model["runs"] if run["seed"] is not None})
    size = f"{results['examples']:,} responses in {results['dialogues']:,} dialogues"
    facts = {
        "Evaluated on": f"{results['split']}, {size}",
        "Evaluation": results["fingerprint"][:12],
        "Seeds": ", ".join(map(str, seeds)),
        "Hardware": hardware(results["environment"]),
        "Total time": duration(results["seconds"]),
    }
    return {name: text for name, text in facts.items() if text}


def _short(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Truncate the texts of an example; a page of the longest texts stays below 2 MB."""
    omitted = len(sample["context"]) - MOST_TURNS
    turns = [_truncate(turn, TURN_COLUMNS) for turn in sample["context"][-MOST_TURNS:]]
    first = [f"… ({omitted} earlier turns)"] if omitted > 0 else []
    texts = {key: _truncate(sample[key], RESPONSE_COLUMNS) for key in ("id", "reference") if key in sample}
    responses = [_truncate(text, RESPONSE_COLUMNS) for text in sample["responses"]]
    return {**texts, "context": first + turns, "responses": responses}


def _truncate(text: str, limit: int) -> str:
    """Truncate a text to columns; characters without width count as well, at a quarter of a column."""
    return truncate(text[: 4 * limit], limit)


def _maps(results: Results) -> list[dict[str, Any]]:
    """Draw every attention map, all on one scale; of large maps the last columns and the first rows."""
    attention = results["attention"]
    peak = highest_weight(*(np.asarray(entry["weights"], dtype=np.float64) for entry in attention))
    maps = []
    for entry in attention:
        rows = entry["response_tokens"][:32]
        columns = entry["context_tokens"][-max(1, MOST_CELLS // (len(attention) * max(1, len(rows)))) :]
        weights = np.asarray(entry["weights"], dtype=np.float64)[: len(rows), -len(columns) :]
        svg = heatmap_svg(weights, rows=rows, columns=columns, title=entry["model"], peak=peak)
        maps.append({"name": entry["name"], "head": entry["head"], "svg": _trust_svg(svg)})
    return maps


def _drawings(figure: Figure) -> Sequence[Markup]:
    return [_trust_svg(svg) for svg in figure.drawings]


def _trust_svg(svg: str) -> Markup:
    """Mark SVG as safe: `Canvas` has escaped its texts."""
    return Markup(svg)
