"""A comparison as one self-contained HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from dialog.atomic import write_text
from dialog.report.drawing.scale import highest_weight
from dialog.report.drawing.svg import SERIES, Curve, curves_svg, heatmap_svg
from dialog.report.measures import METRIC_DISPLAYS, duration, hardware
from dialog.report.page import printable_json, render_page
from dialog.report.tables import Results, metric_names, parity, runs, summary


def write_html(results: Results, path: Path) -> None:
    """Write a report of results.json; its texts are escaped and cannot add elements or addresses."""
    write_text(path, render_page("dialog.report", "report.html.j2", template_values(printable_json(results))))


def template_values(results: Results) -> dict[str, Any]:
    """Return the variables of the template."""
    return {
        "results": results,
        "names": [model["name"] for model in results["models"]],
        "series": SERIES,
        "facts": _facts(results),
        "summary": summary(results),
        "parity": parity(results),
        "runs": runs(results),
        "charts": _charts(results),
        "maps": _maps(results),
        "metrics": [METRIC_DISPLAYS[name] for name in metric_names(results) if name in METRIC_DISPLAYS],
        "signature": _signature(results),
    }


def _facts(results: Results) -> dict[str, str]:
    models = results["models"]
    seeds = sorted({run["seed"] for model in models for run in model["runs"]})
    examples = {run["metrics"].get("examples") for model in models for run in model["runs"]} - {None}
    scored = ", ".join(f"{number:,} examples" for number in sorted(examples))
    return {
        "Evaluated on": results["split"] + (f", {scored}" if scored else ""),
        "Seeds": ", ".join(map(str, seeds)),
        "Hardware": hardware(results["environment"]),
        "Total time": duration(results["seconds"]),
    }


def _charts(results: Results) -> list[Markup]:
    """Draw validation bits per byte against target tokens and against time; empty without validation."""
    points = [
        (model["name"], f"seed {run['seed']}", point)
        for model in results["models"]
        for run in model["runs"]
        for point in run["curve"]
        if point["validation/bits_per_byte"] is not None
    ]
    if not points:
        return []
    longest = max(point["seconds"] for *_, point in points)
    scale, unit = (3600, "hours") if longest > 7200 else (60, "minutes") if longest > 120 else (1, "seconds")
    return [
        _chart(points, "target_tokens", 1, "target tokens"),
        _chart(points, "seconds", scale, f"training time ({unit})"),
    ]


def _chart(points: list[tuple[str, str, Any]], key: str, scale: float, label: str) -> Markup:
    lines: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for model, run, point in points:
        lines.setdefault((model, run), []).append((point[key] / scale, point["validation/bits_per_byte"]))
    curves = [Curve(model, run, line) for (model, run), line in lines.items()]
    return _trust_svg(curves_svg(curves, x=label, y="validation bits per byte"))


def _maps(results: Results) -> list[dict[str, Any]]:
    """Draw every attention map, all on one scale."""
    attention = results.get("attention", ())
    peak = highest_weight(*(np.asarray(entry["weights"], dtype=np.float64) for entry in attention))
    maps = []
    for entry in attention:
        axes = {"rows": entry["response_tokens"], "columns": entry["context_tokens"]}
        svg = _trust_svg(heatmap_svg(entry["weights"], **axes, title=entry["model"], peak=peak))
        maps.append({"name": entry["name"], "head": entry["head"], "svg": svg})
    return maps


def _signature(results: Results) -> str:
    scores = (run["metrics"].get("sacrebleu") for model in results["models"] for run in model["runs"])
    return next((str(score["signature"]) for score in scores if isinstance(score, dict)), "")


def _trust_svg(svg: str) -> Markup:
    """Mark SVG as safe: `Canvas` has escaped its texts."""
    return Markup(svg)
