"""Cost of the models of a comparison: speed of training and generation, time to a quality,
memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from dialog.comparison.curves import validation_curves
from dialog.errors import UserError
from dialog.json_files import read_json, read_json_lines
from dialog.report.formats.results import Cost, ModelResults, TimeToValue
from dialog.runs.evaluation.evaluated import COST
from dialog.runs.folder import METRICS, SUMMARY


def cost(
    run_folders: Sequence[Path], evaluations: Sequence[Path], seconds_to: TimeToValue | None
) -> Cost:
    """Return the cost of a contender, from the folders of its runs and of their evaluations.

    * `tokens_per_second`: target tokens of training per second, the median of the logged intervals;
      mean over runs.
    * `seconds_to`: see `seconds_to_common_value`.
    * `milliseconds_per_response`: time of generation in the batches of the evaluation / responses;
      mean over runs.
    * `peak_memory_bytes`: the largest of all trainings; of tensors on a GPU, else of the process.

    A figure that no run has recorded is None.
    """
    speeds = [speed for folder in run_folders if (speed := training_speed(folder)) is not None]
    latencies = [
        latency for folder in evaluations if (latency := response_milliseconds(folder)) is not None
    ]
    peaks = [
        peak
        for folder in run_folders
        if (peak := _recorded(folder / SUMMARY).get("peak_memory_bytes")) is not None
    ]
    return Cost(
        fmean(speeds) if speeds else None,
        seconds_to,
        fmean(latencies) if latencies else None,
        max(peaks, default=None),
    )


def training_speed(folder: Path) -> float | None:
    """Return the median of the logged target tokens per second of a run; None if it has logged
    none.
    """
    logged = (line.get("train/tokens_per_second") for line in read_json_lines(folder / METRICS))
    speeds = [speed for speed in logged if speed is not None]
    return median(speeds) if speeds else None


def response_milliseconds(evaluation: Path) -> float | None:
    """Return the milliseconds of generation per response of an evaluation; None if they were not
    recorded.
    """
    recorded = _recorded(evaluation / COST)
    return (
        1000 * recorded["decoding_seconds"] / recorded["responses"]
        if recorded.get("responses")
        else None
    )


def seconds_to_common_value(models: Sequence[ModelResults]) -> list[TimeToValue | None]:
    """Return, for each model, the seconds of training until the validation reached a value.

    The value is the best one that all runs of all models reached: the largest of their lowest
    validations. Seconds are means over the runs of a model, interpolated between validations,
    without runs that diverged. None for a model without validations.
    """
    curves = [validation_curves(model, "seconds") for model in models]
    lowest = [float(curve.values.min()) for model_curves in curves for curve in model_curves]
    if not lowest:
        return [None] * len(models)
    value = max(lowest)
    times = [[curve.cost_to(value) for curve in model_curves] for model_curves in curves]
    return [TimeToValue(value, fmean(seconds)) if seconds else None for seconds in times]


def _recorded(path: Path) -> dict[str, Any]:
    """Return the content of a file that older versions did not write; empty if it is missing or
    damaged.
    """
    try:
        return read_json(path)
    except UserError:
        return {}
