"""Loggers: always metrics.jsonl, and the recipe's ``logger``."""

from __future__ import annotations

import hashlib
import json
import logging
import netrc
import os
import time
from argparse import Namespace
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import Logger, TensorBoardLogger
from lightning.pytorch.utilities import rank_zero_only

from dialog.atomic import naming, replacing, sync
from dialog.config.components import Component, Family, build
from dialog.escaping import to_json
from dialog.training.lightning_internals import QuietWandbLogger

MODES = ("auto", "online", "offline", "disabled")

log = logging.getLogger("dialog")


class StepsFromOne(Logger):
    """Logger that counts steps from 1, as progress bar and attention folders do; Lightning counts from 0."""

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Log the values of a step, counted from 0."""
        super().log_metrics(dict(metrics), None if step is None else step + 1)  # type: ignore[safe-super]


class RecordLogger(Logger):
    """Writes ``metrics.jsonl``: one line per logged step, counted from 1, with epoch and seconds of training."""

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
        """Wait until the file is on disk; return its size, lines and SHA-256, and the seconds of training."""
        if self.path.exists():
            sync(self.path)
        return {"size": self.size, "lines": self.lines, "sha256": self.hash.hexdigest(), "seconds": self.seconds}

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
            left = f"left are steps {min(readable)} to {max(readable)}" if readable else "none is left"
            log.warning(
                "WARNING: %s: damaged; %d of %d lines up to step %d are missing (%s) and will not be logged again",
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
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: object, **kwargs: object) -> None:
        """Do nothing: recipe.yaml is in the same folder."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Write a line for an optimizer step, counted from 0; a value that is not finite is null: JSON has no NaN."""
        values = {key: value for key, value in metrics.items() if key != "epoch"}
        number = None if step is None else step + 1
        line = {"step": number, "epoch": int(metrics.get("epoch", 0)), "time": round(self.seconds, 3)}
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
    """Saves the position in the record in checkpoints, so that a resumed run logs each step once."""

    state_key = "Record"  # in checkpoints; must not change

    def __init__(self, logger: RecordLogger) -> None:
        self.logger = logger

    def state_dict(self) -> dict[str, Any]:
        """Return the position."""
        return self.logger.position()

    def on_load_checkpoint(self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Truncate the record."""
        self.logger.resume(checkpoint["global_step"], **checkpoint["callbacks"][self.state_key])


PUBLIC_SERVERS = ("api.wandb.ai", "api.forge.coreweave.com")
"""Default servers of ``wandb login``: before wandb 0.31, and since."""


class RunWandbLogger(StepsFromOne, QuietWandbLogger):
    """Weights & Biases in the run folder; offline without an account, and then without network access.

    ``mode`` auto is ``WANDB_MODE`` if set, else online if the user is logged in, else offline. A resumed run keeps its
    id, which is read from the names of its folders, so it is one run in Weights & Biases.
    """

    def __init__(self, folder: Path, *, project: str = "dialog", group: str | None = None, mode: str = "auto") -> None:
        if mode not in MODES:
            raise ValueError(f"unknown mode {mode!r}; use one of {', '.join(MODES)}")
        mode = wandb_mode() if mode == "auto" else mode
        if mode != "online":  # wandb reads this from the environment only
            os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        os.environ["WANDB_DATA_DIR"] = str(folder / "wandb")  # artifacts are staged here, not in the home folder
        super().__init__(
            project=project,
            name=folder.name,
            id=next((path.name.rpartition("-")[2] for path in folder.glob("wandb/*run-*-*")), None),
            group=group,
            save_dir=str(folder),
            mode=mode,  # not offline=True, which sets WANDB_MODE for the whole process
            settings={"console": "off", "x_disable_meta": True, "silent": True},
        )
        upload = f"; to upload: wandb sync {folder}/wandb/offline-run-*" if mode == "offline" else ""
        log.info("wandb is %s%s", mode, upload)

    @rank_zero_only
    def close(self) -> None:
        """Finish the run, so that the next one in this process is separate."""
        self.finish()


def wandb_mode() -> str:
    """Return online if the user is logged in, else offline, unless ``WANDB_MODE`` is set."""
    if mode := os.environ.get("WANDB_MODE"):
        return mode
    if os.environ.get("WANDB_API_KEY"):
        return "online"
    try:
        hosts = netrc.netrc(os.environ.get("NETRC")).hosts
    except (OSError, netrc.NetrcParseError):
        hosts = {}
    private_server = urlsplit(os.environ.get("WANDB_BASE_URL", "")).netloc
    return "offline" if hosts.keys().isdisjoint([private_server] if private_server else PUBLIC_SERVERS) else "online"


class RunTensorBoardLogger(StepsFromOne, TensorBoardLogger):
    """TensorBoard event files in the run folder; needs the extra ``tensorboard``."""

    def __init__(self, folder: Path) -> None:
        super().__init__(save_dir=str(folder), name="tensorboard", version="")


def no_logger() -> None:
    """Log to metrics.jsonl only."""


LOGGERS: Family[Logger | None] = Family(
    "logger", {"wandb": RunWandbLogger, "tensorboard": RunTensorBoardLogger, "none": no_logger}, runtime=("folder",)
)


def build_loggers(component: Component, folder: Path) -> list[Logger]:
    """Build the record's logger first, then the recipe's."""
    other = build(LOGGERS, component, folder=folder)
    return [RecordLogger(folder), *([other] if other is not None else [])]


def describe(loggers: list[Logger], recipe: Mapping[str, Any]) -> None:
    """Log the recipe to Weights & Biases."""
    for logger in loggers:
        if isinstance(logger, RunWandbLogger):
            logger.log_hyperparams(dict(recipe))


def close(loggers: list[Logger]) -> None:
    """Close the loggers, so that the next run in this process has its own."""
    for logger in loggers:
        if isinstance(logger, RunWandbLogger):
            logger.close()


def seconds(loggers: list[Logger]) -> float:
    """Return the seconds of training, from the record."""
    return next(logger.seconds for logger in loggers if isinstance(logger, RecordLogger))
