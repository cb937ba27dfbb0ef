"""Where metrics go: always metrics.jsonl, and what else the recipe names."""

from __future__ import annotations

import logging
import netrc
import os
import time
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lightning.pytorch.loggers import Logger, TensorBoardLogger
from lightning.pytorch.utilities import rank_zero_only

from dialog.config.components import Component, Family, build
from dialog.escaping import to_json
from dialog.training.lightning_internals import QuietWandbLogger

MODES = ("auto", "online", "offline", "disabled")

log = logging.getLogger("dialog")


class RecordLogger(Logger):
    """``metrics.jsonl``, the record of a run: one line a logged step with step, epoch and seconds of training."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.path = folder / "metrics.jsonl"
        self.started = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long training has taken, without the time between a stop and the going on."""
        return time.monotonic() - self.started

    @property
    def size(self) -> int:
        """Bytes that are written."""
        return self.path.stat().st_size if self.path.exists() else 0

    @rank_zero_only
    def go_on(self, size: int, seconds: float) -> None:
        """Be as it was when it had so many bytes: what came after them will come again."""
        self.started = time.monotonic() - seconds
        if self.path.exists():
            os.truncate(self.path, min(size, self.size))

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name

    @property
    def version(self) -> str:
        """There is one."""
        return ""

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: object, **kwargs: object) -> None:
        """Nothing: the recipe stands beside the record."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Write a line; with accumulation a step is an optimizer step. What is not finite is null: JSON has no NaN."""
        values = {key: value for key, value in metrics.items() if key != "epoch"}
        line = {"step": step, "epoch": int(metrics.get("epoch", 0)), "time": round(self.seconds, 3)}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(to_json({**line, **values}) + "\n")


SERVERS = ("api.wandb.ai", "api.forge.coreweave.com")
"""Where ``wandb login`` logs in without a server of one's own: before wandb 0.31, and since."""


class RunWandbLogger(QuietWandbLogger):
    """Weights & Biases in the run's folder; without an account offline, and then it never asks the network.

    ``mode`` auto is what ``WANDB_MODE`` says, else online when the user is logged in, else offline. A run that is gone
    on with keeps its id, which is in the names of its folders here: it is one there, however often it was stopped.
    """

    def __init__(self, folder: Path, *, project: str = "dialog", group: str | None = None, mode: str = "auto") -> None:
        if mode not in MODES:
            raise ValueError(f"mode {mode!r} is none of {', '.join(MODES)}")
        mode = wandb_mode() if mode == "auto" else mode
        if mode != "online":  # wandb reports on itself at the end of the process, and asks the process, not the run
            os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        os.environ["WANDB_DATA_DIR"] = str(folder / "wandb")  # artifacts are staged with the run, not at home
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
        """End the run, so that the next one in this process is its own."""
        self.finish()


def wandb_mode() -> str:
    """Online when the user is logged in, else offline."""
    if mode := os.environ.get("WANDB_MODE"):
        return mode
    if os.environ.get("WANDB_API_KEY"):
        return "online"
    try:
        hosts = netrc.netrc(os.environ.get("NETRC")).hosts
    except (OSError, netrc.NetrcParseError):
        hosts = {}
    own = urlsplit(os.environ.get("WANDB_BASE_URL", "")).netloc
    return "offline" if hosts.keys().isdisjoint([own] if own else SERVERS) else "online"


def tensorboard(folder: Path) -> TensorBoardLogger:
    """TensorBoard's event files in the run's folder; needs the extra ``tensorboard``."""
    return TensorBoardLogger(save_dir=str(folder), name="tensorboard", version="")


def nothing() -> None:
    """No other logger than the record."""


LOGGERS: Family[Logger | None] = Family(
    "logger", {"wandb": RunWandbLogger, "tensorboard": tensorboard, "none": nothing}, runtime=("folder",)
)


def build_loggers(component: Component, folder: Path) -> list[Logger]:
    """The record first, then the recipe's logger."""
    other = build(LOGGERS, component, folder=folder)
    return [RecordLogger(folder), *([other] if other is not None else [])]


def describe(loggers: list[Logger], recipe: Mapping[str, Any]) -> None:
    """Show a run's recipe where runs are compared by it."""
    for logger in loggers:
        if isinstance(logger, RunWandbLogger):
            logger.log_hyperparams(dict(recipe))


def close(loggers: list[Logger]) -> None:
    """End what a logger keeps open, so that the next run of this process has its own."""
    for logger in loggers:
        if isinstance(logger, RunWandbLogger):
            logger.close()


def seconds(loggers: list[Logger]) -> float:
    """How long a run has trained, by its record."""
    return next(logger.seconds for logger in loggers if isinstance(logger, RecordLogger))
