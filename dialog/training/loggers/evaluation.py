"""Log an evaluation to the logger of the run's recipe."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dialog.config.components import Component
from dialog.training.loggers import MediaLogger, build_tracker

SAMPLES = 20
"""Largest number of responses in the table that is logged."""
NOT_LOGGED = "baselines"
"""Reference rows do not depend on the run: hundreds of numbers that are equal for all runs."""


def log_evaluation(
    component: Component, run: Path, folder: Path, metrics: Mapping[str, Any], *, step: int
) -> None:
    """Log metrics, and a table of responses spread evenly over the split, under the name of the
    evaluation's folder.
    """
    logger = build_tracker(component, run)
    if logger is None:
        return
    logger.submit(logger.tracker.log_metrics, dict(numbers(metrics, folder.name)), step)
    if isinstance(logger.tracker, MediaLogger):
        lines = (folder / "responses.jsonl").read_text(encoding="utf-8").splitlines()
        columns = ["context", "reference", "response"]
        rows = [json.loads(line) for line in lines[:: max(1, -(-len(lines) // SAMPLES))]]
        table = [["\n".join(row["context"]), row["reference"], row["response"]] for row in rows]
        logger.submit(logger.tracker.log_table, f"{folder.name}/responses", columns, table, step)
    logger.close()


def numbers(metrics: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    """Yield the numbers of nested metrics but reference rows, with keys joined by slashes."""
    for key, value in metrics.items():
        if key == NOT_LOGGED:
            continue
        if isinstance(value, Mapping):
            yield from numbers(value, f"{prefix}/{key}")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}/{key}", value
