"""The record of a run: ``metrics.jsonl``."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from argparse import Namespace
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only

from dialog.atomic import naming, replacing, sync
from dialog.escaping import to_json

log = logging.getLogger("dialog")


class RecordLogger(Logger):
    """Writes ``metrics.jsonl``: one line per logged step, counted from 1, with epoch and seconds of
    training.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.path = folder / "metrics.jsonl"
        self.started = time.monotonic()
        self.size = self.lines = 0
        self.hash = hashlib.sha256()

    @property
    def seconds(self) -> float:
        """Seconds of training, without the time between a stop and a resume."""
        return time.monotonic() - self.started

    def position(self) -> dict[str, Any]:
        """Wait until the file is on disk; return its size, lines and SHA-256, and the seconds of
        training.
        """
        if self.path.exists():
            sync(self.path)
        return {
            "size": self.size,
            "lines": self.lines,
            "sha256": self.hash.hexdigest(),
            "seconds": self.seconds,
        }

    @rank_zero_only
    def resume(self, step: int, *, size: int, lines: int, sha256: str, seconds: float) -> None:
        """Truncate the file to its size at a checkpoint: later lines will be logged again.

        Of a damaged file the readable lines up to the checkpoint's step are kept, with a warning.
        """
        self.started = time.monotonic() - seconds
        content = self.path.read_bytes() if self.path.exists() else b""
        kept = content[:size]
        if hashlib.sha256(kept).hexdigest() != sha256:
            readable = readable_lines(content, step)
            kept = b"".join(readable.values())
            left = (
                f"left are steps {min(readable)} to {max(readable)}" if readable else "none is left"
            )
            log.warning(
                "WARNING: %s: damaged; %d of %d lines up to step %d are missing (%s) and will not"
                " be logged again",
                *(self.path, max(lines - kept.count(b"\n"), 0), lines, step, left),
            )
        if kept != content:
            with replacing(self.path) as new:
                new.write_bytes(kept)
        self.size = self.lines = 0
        self.hash = hashlib.sha256()
        self._count(kept)

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.path.name

    @property
    def version(self) -> str:
        """Empty: a run has one record."""
        return ""

    @rank_zero_only
    def log_hyperparams(
        self, params: dict[str, Any] | Namespace, *args: object, **kwargs: object
    ) -> None:
        """Do nothing: recipe.yaml is in the same folder."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Write a line for an optimizer step, counted from 0; a value that is not finite is null:
        JSON has no NaN.
        """
        values = {key: value for key, value in metrics.items() if key != "epoch"}
        number = None if step is None else step + 1
        line = {
            "step": number,
            "epoch": int(metrics.get("epoch", 0)),
            "time": round(self.seconds, 3),
        }
        content = (to_json({**line, **values}) + "\n").encode()
        with naming(self.path), self.path.open("ab") as file:
            file.write(content)
        self._count(content)

    def _count(self, content: bytes) -> None:
        self.size += len(content)
        self.lines += content.count(b"\n")
        self.hash.update(content)


def readable_lines(content: bytes, step: int) -> dict[int, bytes]:
    """Return the complete lines of a record for each step, up to this one."""
    lines: dict[int, bytes] = {}
    for line in content.split(b"\n")[:-1]:
        with suppress(ValueError, KeyError, TypeError):
            number = int(json.loads(line)["step"])
            if number <= step:
                lines[number] = lines.get(number, b"") + line + b"\n"
    return lines


class RecordPosition(Callback):
    """Saves the position in the record in checkpoints, so that a resumed run logs each step
    once.
    """

    state_key = "Record"  # in checkpoints; must not change

    def __init__(self, logger: RecordLogger) -> None:
        self.logger = logger

    def state_dict(self) -> dict[str, Any]:
        """Return the position."""
        return self.logger.position()

    def on_load_checkpoint(
        self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Truncate the record."""
        self.logger.resume(checkpoint["global_step"], **checkpoint["callbacks"][self.state_key])
