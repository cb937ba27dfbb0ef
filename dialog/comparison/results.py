"""Results of a comparison as plain data, for results.json."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from dialog.json_files import read_json_lines
from dialog.report.measures import metric_value
from dialog.runs.folder import read_summary
from dialog.runs.run import Run

COUNTS = {
    "examples",
    "dialogues",
    "nll_nats",
    "tokens",
    "words",
    "bytes",
    "unknown_ratio",
    "questions",
    "copied_tokens",
}
"""Metrics that describe the test set, not the model."""
SHARED = ("id", "context", "reference")
"""Fields of responses.jsonl that are equal for all models."""


def learning_curve(folder: Path) -> list[dict[str, Any]]:
    """Read the learning curve of a run from its metrics.jsonl.

    Target tokens at a step without a log of them are interpolated between steps.

    Raises:
        UserError: the file is missing or damaged.
    """
    lines = list(read_json_lines(folder / "metrics.jsonl", "step", "epoch", "time"))
    counts = {0: 0.0} | {line["step"]: line["train/tokens"] for line in lines if "train/tokens" in line}
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


def summarize(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return mean, sample standard deviation and count over seeds of every scalar metric except `COUNTS`."""
    summary = {}
    for name, first_value in runs[0]["metrics"].items():
        if metric_value(first_value) is None or name in COUNTS:
            continue
        candidates = [metric_value(run["metrics"].get(name)) for run in runs]
        values = [value for value in candidates if value is not None]
        std = statistics.stdev(values) if len(values) > 1 else None
        summary[name] = {"mean": statistics.fmean(values), "std": std, "n": len(values)}
    return summary


def draw_samples(evaluations: Sequence[Path], *, count: int = 12) -> list[dict[str, Any]]:
    """Draw the same examples from the evaluation folders of all runs, from those with a context if any has one."""
    files = [folder / "responses.jsonl" for folder in evaluations]
    has_context = [bool(row["context"]) for row in read_json_lines(files[0], *SHARED)]
    eligible = [index for index, context in enumerate(has_context) if context] or list(range(len(has_context)))
    chosen = set(random.Random(0).sample(eligible, min(count, len(eligible))))
    rows = [read_lines(file, chosen) for file in files]
    return [
        {**{key: example[0][key] for key in SHARED}, "responses": [row["response"] for row in example]}
        for example in zip(*rows, strict=True)
    ]


def select_sample(samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Choose the sample whose attention is shown: all responses correct, then all short, then the longest context."""

    def preference(sample: dict[str, Any]) -> tuple[bool, bool, int]:
        responses = sample["responses"]
        correct = all(response == sample["reference"] for response in responses)
        return correct, max(len(response.split()) for response in responses) <= 20, len(sample["context"])

    return max(samples, key=preference)


def read_lines(file: Path, indices: set[int]) -> list[dict[str, Any]]:
    """Read the JSON lines with these indices."""
    rows = read_json_lines(file, *SHARED, "response")
    return [row for index, row in enumerate(islice(rows, max(indices) + 1)) if index in indices]


def attention_map(
    run: Run, name: str, metrics: dict[str, Any], context: Sequence[str], response: str
) -> dict[str, Any] | None:
    """Return one cross-attention map over a model's own response; None without cross-attention.

    The map is the head with the best alignment accuracy if that was measured, else the mean over heads of the last
    cross-attention.
    """
    attention = run.attention(context, response)
    cross = [entry for entry in attention["maps"] if (entry["kind"], entry["columns"]) == ("cross", "source")]
    if not cross:
        return None
    best = metrics.get("alignment_head")
    if best is not None:
        module, _, number = str(best).rpartition(".")
        head: int | None = int(number)
        weights = next(entry["weights"] for entry in cross if entry["name"] == module)[int(number)]
    else:
        module, heads = cross[-1]["name"], cross[-1]["weights"]
        head = 0 if len(heads) == 1 else None
        weights = [[statistics.fmean(cell) for cell in zip(*rows, strict=True)] for rows in zip(*heads, strict=True)]
    tokens = {key: attention[key] for key in ("context_tokens", "response_tokens")}
    return {"model": name, "name": module, "head": head, **tokens, "weights": weights}
