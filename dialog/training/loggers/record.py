"""The record of a run: ``metrics.jsonl``."""

from __future__ import annotations

import os
import time
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback
from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only

from dialog.escaping import to_json


class RecordLogger(Logger):
    """Writes ``metrics.jsonl``: one line per logged step, with step, epoch and seconds of training."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.path = folder / "metrics.jsonl"
        self.started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds of training, without the time between a stop and a resume."""
        return time.monotonic() - self.started

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return self.path.stat().st_size if self.path.exists() else 0

    @rank_zero_only
    def resume(self, size: int, seconds: float) -> None:
        """Truncate the file to the size at the checkpoint: later lines will be logged again."""
        self.started = time.monotonic() - seconds
        if self.path.exists():
            os.truncate(self.path, min(size, self.size))

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.path.name

    @property
    def version(self) -> str:
        """Empty: a run has one record."""
        return ""

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: object, **kwargs: object) -> None:
        """Do nothing: recipe.yaml is in the same folder."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Write a line for an optimizer step; a value that is not finite is null, since JSON has no NaN."""
        values = {key: value for key, value in metrics.items() if key != "epoch"}
        line = {"step": step, "epoch": int(metrics.get("epoch", 0)), "time": round(self.seconds, 3)}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(to_json({**line, **values}) + "\n")


class RecordPosition(Callback):
    """Saves the size and time of the record in checkpoints, so that a resumed run logs each step once."""

    state_key = "Record"  # in checkpoints; must not change

    def __init__(self, logger: RecordLogger) -> None:
        self.logger = logger

    def state_dict(self) -> dict[str, Any]:
        """Return size and time."""
        return {"size": self.logger.size, "seconds": self.logger.seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Truncate the record."""
        self.logger.resume(**state_dict)
