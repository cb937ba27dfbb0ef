"""Learning curves and means of runs, for results.json."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dialog.json_files import read_json_lines
from dialog.report.formats.metrics import metric_value
from dialog.runs.folder import read_summary

COUNTS = (
    *("examples", "dialogues", "nll_nats", "tokens", "words", "bytes"),
    *("unknown_ratio", "questions", "copied_tokens"),
)
"""Metrics that describe the test set, not the model."""


def learning_curve(folder: Path) -> list[dict[str, Any]]:
    """Read the learning curve of a run from its metrics.jsonl.

    Target tokens at a step without a log of them are interpolated between steps.

    Raises:
        UserError: the file is missing or damaged.
    """
    lines = list(read_json_lines(folder / "metrics.jsonl", "step", "epoch", "time"))
    counts = {0: 0.0} | {
        line["step"]: line["train/tokens"] for line in lines if "train/tokens" in line
    }
    if (summary := read_summary(folder)) is not None:
        counts[summary.steps] = summary.target_tokens
    points = []
    for line in lines:
        losses = {key: line.get(key) for key in ("train/loss", "validation/bits_per_byte")}
        if losses.keys() & line.keys():
            tokens = round(float(np.interp(line["step"], list(counts), list(counts.values()))))
            cost = {"target_tokens": tokens, "seconds": line["time"]}
            points.append({"step": line["step"], "epoch": line["epoch"], **cost, **losses})
    return points


def summarize(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return mean, sample standard deviation and count over runs of every scalar metric except
    `COUNTS`.

    Args:
        runs: Content of metrics.json, or one of its subsets, for each run.
    """
    summary = {}
    for name in dict.fromkeys(name for metrics in runs for name in metrics):
        candidates = [metric_value(metrics.get(name)) for metrics in runs]
        values = [value for value in candidates if value is not None]
        if not values or name in COUNTS:
            continue
        std = statistics.stdev(values) if len(values) > 1 else None
        summary[name] = {"mean": statistics.fmean(values), "std": std, "n": len(values)}
    return summary
