"""Learning curves over target tokens, time and FLOPs, with a band over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from dialog.report.drawing.charts import bands_svg
from dialog.report.formats.results import CurvePoint, ModelResults, Results
from dialog.report.tables import ReportSection, figure_of

MOST_NOTES = 6
"""Sentences about pairs of curves."""


def curves(results: Results) -> ReportSection:
    """Return validation bits per byte against what has been spent on training; empty without
    validation.
    """
    trained = {
        index: model
        for index, model in enumerate(results.models)
        if any(run.validations for run in model.runs)
    }
    if not trained:
        return ReportSection("Learning curves")
    trained_runs = [run for model in trained.values() for run in model.runs]
    longest = max(point.seconds for run in trained_runs for point in run.validations)
    scale = 1
    unit = "seconds"
    if longest > 7200:
        scale = 3600
        unit = "hours"
    elif longest > 120:
        scale = 60
        unit = "minutes"
    drawings = [_chart(trained, lambda _, point: point.seconds / scale, f"training time ({unit})")]
    # else their tokens cannot be compared
    if len({model.tokenizer for model in trained.values()}) == 1:
        drawings.insert(0, _chart(trained, lambda _, point: point.target_tokens, "target tokens"))
    if all(model.flops_per_target_token for model in trained.values()):
        drawings.append(_chart(trained, _flops, "training FLOPs"))
    several = any(len(model.runs) > 1 for model in trained.values())
    band = " Thick: mean over seeds; band: range over seeds; thin: single seeds." if several else ""
    diverged = any(run.diverged for run in trained_runs)
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
    several = len(results.models) > 2
    crossings = [one for one in results.crossings if one.crosses or not several]
    yield from (crossing.text for crossing in crossings[:MOST_NOTES])
    if more := crossings[MOST_NOTES:]:
        yield f"{len(more)} more pairs of curves cross; results.json lists them."


def _chart(
    models: Mapping[int, ModelResults],
    spent: Callable[[ModelResults, CurvePoint], float],
    label: str,
) -> str:
    lines = {
        index: [
            [(spent(model, point), point.bits_per_byte or 0.0) for point in run.validations]
            for run in model.runs
            if not run.diverged
        ]
        for index, model in models.items()
    }
    return bands_svg(lines, x=label, y="validation bits per byte")


def _flops(model: ModelResults, point: CurvePoint) -> float:
    return point.target_tokens * (model.flops_per_target_token or math.nan)
