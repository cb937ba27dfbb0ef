"""Loggers: always metrics.jsonl, and the recipe's ``logger``.

Read first: `background.py`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import Logger

from dialog.config.components import Component, Family, accepts, build
from dialog.training.loggers.background import BackgroundLogger, MediaLogger, TableRows
from dialog.training.loggers.record import RecordLogger, RecordPosition
from dialog.training.loggers.tensorboard_tracker import TensorBoardTracker
from dialog.training.loggers.wandb_tracker import WandbTracker, wandb_mode

__all__ = [
    "LOGGERS",
    "BackgroundLogger",
    "MediaLogger",
    "RecordLogger",
    "RecordPosition",
    "trackers",
    "wandb_mode",
]


def no_logger(*, self_attention: bool = False) -> None:
    """Log to metrics.jsonl only.

    Args:
        self_attention: Whether a run also records maps of self-attention; cross-attention is always
            recorded.
    """


LOGGERS: Family[Logger | None] = Family(
    "logger",
    {"wandb": WandbTracker, "tensorboard": TensorBoardTracker, "none": no_logger},
    runtime=("folder",),
)


def build_tracker(component: Component, folder: Path) -> BackgroundLogger | None:
    """Build the recipe's logger, in a thread of its own."""
    tracker = build(LOGGERS, component, folder=folder)
    return None if tracker is None else BackgroundLogger(tracker)


def build_loggers(component: Component, folder: Path) -> list[Logger]:
    """Build the record's logger first, then the recipe's."""
    tracker = build_tracker(component, folder)
    return [RecordLogger(folder), *([tracker] if tracker is not None else [])]


def labelled(
    component: Component, *, run_name: str, group: str | None, tags: Sequence[str]
) -> Component:
    """Return a logger with name, group and tags of its run, where it takes them and the recipe sets
    no others.
    """
    labels = {"run_name": run_name, "group": group, "tags": list(tags)}
    missing = {key: value for key, value in labels.items() if not component.get(key)}
    return {
        **component,
        **{
            key: value
            for key, value in missing.items()
            if value and accepts(LOGGERS, component, key)
        },
    }


def trackers(loggers: Iterable[Logger]) -> list[BackgroundLogger]:
    """Return the loggers besides the record."""
    return [logger for logger in loggers if isinstance(logger, BackgroundLogger)]


def describe(loggers: Iterable[Logger], recipe: Mapping[str, Any]) -> None:
    """Log the recipe."""
    for tracker in trackers(loggers):
        tracker.log_hyperparams(dict(recipe))


def log_model(loggers: Iterable[Logger], files: Sequence[Path]) -> None:
    """Log the files of a trained model, where the logger keeps models."""
    for tracker in trackers(loggers):
        if isinstance(tracker.tracker, WandbTracker):
            tracker.submit(tracker.tracker.log_model, files)


def alert(loggers: Iterable[Logger], title: str, text: str) -> None:
    """Send a message, where the logger has a way to."""
    for tracker in trackers(loggers):
        if isinstance(tracker.tracker, WandbTracker):
            tracker.submit(tracker.tracker.alert, title, text)


def close(loggers: Iterable[Logger]) -> None:
    """Close the loggers, so that the next run in this process has its own."""
    for tracker in trackers(loggers):
        tracker.close()


def seconds(loggers: Iterable[Logger]) -> float:
    """Return the seconds of training, from the record."""
    return next(logger.seconds for logger in loggers if isinstance(logger, RecordLogger))


SAMPLES = 20
"""Largest number of responses in the table that is logged."""
SUBSETS = "subsets"
"""Metrics of parts of the split: one table, not a chart of one point for each number."""
NOT_LOGGED = "baselines"
"""Reference rows do not depend on the run: hundreds of numbers that are equal for all runs."""


def log_evaluation(
    component: Component, run: Path, folder: Path, metrics: Mapping[str, Any], *, step: int
) -> None:
    """Log metrics under the name of the evaluation's folder, and as tables those of subsets and
    responses spread evenly over the split.
    """
    logger = build_tracker(component, run)
    if logger is None:
        return
    whole = {key: value for key, value in metrics.items() if key != SUBSETS}
    logger.submit(logger.tracker.log_metrics, dict(numbers(whole, folder.name)), step)
    if isinstance(logger.tracker, MediaLogger):
        if subsets := metrics.get(SUBSETS):
            logger.submit(
                logger.tracker.log_table, f"{folder.name}/{SUBSETS}", *by_subset(subsets), step
            )
        lines = (folder / "responses.jsonl").read_text(encoding="utf-8").splitlines()
        columns = ["context", "reference", "response"]
        rows = [json.loads(line) for line in lines[:: max(1, -(-len(lines) // SAMPLES))]]
        table = [["\n".join(row["context"]), row["reference"], row["response"]] for row in rows]
        logger.submit(logger.tracker.log_table, f"{folder.name}/responses", columns, table, step)
    logger.close()


def by_subset(subsets: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], TableRows]:
    """Return columns and rows of a table of the metrics of subsets."""
    columns = {name: dict(numbers(metrics, "")) for name, metrics in subsets.items()}
    keys = dict.fromkeys(key for values in columns.values() for key in values)
    rows: list[list[str | int | float]] = [
        [key.removeprefix("/"), *(values.get(key, math.nan) for values in columns.values())]
        for key in keys
    ]
    return ["metric", *columns], rows


def numbers(metrics: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    """Yield the numbers of nested metrics but reference rows, with keys joined by slashes."""
    for key, value in metrics.items():
        if key == NOT_LOGGED:
            continue
        if isinstance(value, Mapping):
            yield from numbers(value, f"{prefix}/{key}")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}/{key}", value
