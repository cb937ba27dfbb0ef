"""Learning curves over target tokens, time and FLOPs, with a band over seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dialog.report.drawing.charts import bands_svg
from dialog.report.tables import ReportSection, Results, figure_of

MOST_NOTES = 6
"""Sentences about pairs of curves."""


def curves(results: Results) -> ReportSection:
    """Return validation bits per byte against what has been spent on training; empty without
    validation.
    """
    trained = {
        index: model
        for index, model in enumerate(results["models"])
        if any(map(_points, model["runs"]))
    }
    if not trained:
        return ReportSection("Learning curves")
    trained_runs = [run for model in trained.values() for run in model["runs"]]
    longest = max(point["seconds"] for run in trained_runs for point in _points(run))
    scale = 1
    unit = "seconds"
    if longest > 7200:
        scale = 3600
        unit = "hours"
    elif longest > 120:
        scale = 60
        unit = "minutes"
    drawings = [
        _chart(trained, lambda _, point: point["seconds"] / scale, f"training time ({unit})")
    ]
    # else their tokens cannot be compared
    if len({model["tokenizer"] for model in trained.values()}) == 1:
        drawings.insert(
            0, _chart(trained, lambda _, point: float(point["target_tokens"]), "target tokens")
        )
    if all(model["flops_per_target_token"] for model in trained.values()):
        drawings.append(_chart(trained, _flops, "training FLOPs"))
    several = any(len(model["runs"]) > 1 for model in trained.values())
    band = " Thick: mean over seeds; band: range over seeds; thin: single seeds." if several else ""
    diverged = any(run["diverged"] for run in trained_runs)
    caption = (
        f"Bits per byte on the validation split during training.{band} The first steps, which are"
        " higher, are cut off." + (" Diverged runs are not drawn." if diverged else "")
    )
    figures = figure_of(drawings, caption)
    return ReportSection("Learning curves", figures=figures, notes=tuple(_notes(results)))


def _notes(results: Results) -> Iterator[str]:
    """Yield who is ahead; of more than two contenders only where the leader changes, at most
    `MOST_NOTES` times.
    """
    crossings = results["crossings"]
    if len(results["models"]) > 2:
        crossings = [crossing for crossing in crossings if crossing.get("crosses")]
    yield from (str(crossing["text"]) for crossing in crossings[:MOST_NOTES])
    if more := crossings[MOST_NOTES:]:
        yield f"{len(more)} more pairs of curves cross; results.json lists them."


def _chart(
    models: Mapping[int, Mapping[str, Any]],
    spent: Callable[[Mapping[str, Any], Mapping[str, Any]], float],
    label: str,
) -> str:
    lines = {
        index: [
            [
                (spent(model, point), float(point["validation/bits_per_byte"]))
                for point in _points(run)
            ]
            for run in model["runs"]
            if not run["diverged"]
        ]
        for index, model in models.items()
    }
    return bands_svg(lines, x=label, y="validation bits per byte")


def _flops(model: Mapping[str, Any], point: Mapping[str, Any]) -> float:
    return float(point["target_tokens"] * model["flops_per_target_token"])


def _points(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [point for point in run["curve"] if point["validation/bits_per_byte"] is not None]
