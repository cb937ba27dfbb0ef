"""A comparison as one HTML file that needs no network, no script and no other file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from dialog.atomic import write_text
from dialog.report.drawing.scale import top
from dialog.report.drawing.svg import SERIES, Curve, curves_svg, heatmap_svg
from dialog.report.measures import MEASURES, duration, hardware
from dialog.report.page import harmless, render
from dialog.report.tables import Results, parity, runs, summary


def write_html(results: Results, path: Path) -> None:
    """Write results.json, as read, as a report; texts in it are data, none can add an element or an address."""
    write_text(path, render("dialog.report", "report.html.j2", page(harmless(results))))


def page(results: Results) -> dict[str, Any]:
    """What the template shows, by name."""
    names = [model["name"] for model in results["models"]]
    measured = {name for model in results["models"] for name in model["summary"]}
    return {
        "results": results,
        "names": names,
        "series": SERIES,
        "facts": _facts(results),
        "summary": summary(results),
        "parity": parity(results),
        "runs": runs(results),
        "charts": _charts(results),
        "maps": _maps(results),
        "meanings": [known for name, known in MEASURES.items() if name in measured],
        "signature": _signature(results),
    }


def _facts(results: Results) -> dict[str, str]:
    """The line under the title."""
    models = results["models"]
    seeds = sorted({run["seed"] for model in models for run in model["runs"]})
    examples = {run["metrics"].get("examples") for model in models for run in model["runs"]} - {None}
    scored = ", ".join(f"{number:,} examples" for number in sorted(examples))
    return {
        "Evaluated on": results["split"] + (f", {scored}" if scored else ""),
        "Seeds": ", ".join(map(str, seeds)),
        "Hardware": hardware(results["environment"]),
        "Time in all": duration(results["seconds"]),
    }


def _charts(results: Results) -> list[Markup]:
    """Validation bits per byte against target tokens, and against time; none where nothing was validated."""
    curves = [
        (model["name"], f"seed {run['seed']}", point)
        for model in results["models"]
        for run in model["runs"]
        for point in run["curve"]
        if point["validation/bits_per_byte"] is not None
    ]
    if not curves:
        return []
    longest = max(point["seconds"] for *_, point in curves)
    scale, unit = (3600, "hours") if longest > 7200 else (60, "minutes") if longest > 120 else (1, "seconds")
    return [
        _chart(curves, "target_tokens", 1, "target tokens"),
        _chart(curves, "seconds", scale, f"training time ({unit})"),
    ]


def _chart(curves: list[tuple[str, str, Any]], key: str, scale: float, label: str) -> Markup:
    lines: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for model, run, point in curves:
        lines.setdefault((model, run), []).append((point[key] / scale, point["validation/bits_per_byte"]))
    drawn = [Curve(model, run, points) for (model, run), points in lines.items()]
    return _drawn(curves_svg(drawn, x=label, y="validation bits per byte"))


def _maps(results: Results) -> list[dict[str, Any]]:
    """Every attention map, all on one scale so that they can be compared."""
    maps = results.get("attention", ())
    peak = top(*(np.asarray(one["weights"], dtype=np.float64) for one in maps))
    return [
        {
            "model": one["model"],
            "name": one["name"],
            "head": one["head"],
            "svg": _drawn(
                heatmap_svg(
                    one["weights"],
                    rows=one["response_tokens"],
                    columns=one["context_tokens"],
                    title=one["model"],
                    peak=peak,
                )
            ),
        }
        for one in maps
    ]


def _signature(results: Results) -> str:
    found = (run["metrics"].get("sacrebleu") for model in results["models"] for run in model["runs"])
    return next((str(entry["signature"]) for entry in found if isinstance(entry, dict)), "")


def _drawn(svg: str) -> Markup:
    """SVG goes into the page as it is: its writer has escaped the texts."""
    return Markup(svg)
