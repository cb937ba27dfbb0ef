"""Lightning's Trainer as a recipe sets it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import Logger

from dialog.training.callbacks.progress import Progress, Throughput
from dialog.training.checkpoint_io import SafeCheckpointIO
from dialog.training.precision import device_of, precision_plugin

MONITOR = "validation/loss"


def build_trainer(
    settings: Mapping[str, Any],
    *,
    folder: Path,
    loggers: Sequence[Logger],
    every_n_steps: int | None,
    patience: int | None,
    callbacks: Sequence[Callback] = (),
) -> Trainer:
    """A Trainer for a run folder: ``settings`` are Lightning's own arguments.

    ``checkpoints/best.ckpt`` has the lowest validation loss, ``checkpoints/last.ckpt`` the newest state: after each
    validation, and every n steps if asked.
    """
    arguments = dict(settings)
    progress = arguments.pop("enable_progress_bar")
    precision = precision_plugin(arguments["precision"], device_of(arguments["accelerator"]))
    if precision is not None:
        del arguments["precision"]
    own: list[Callback] = [Throughput(), *checkpoints(folder / "checkpoints", every_n_steps), *callbacks]
    if patience is not None:
        own.append(EarlyStopping(MONITOR, patience=patience, check_finite=True))
    if progress:
        own.append(Progress())
    return Trainer(
        **arguments,
        default_root_dir=str(folder),
        logger=list(loggers),
        callbacks=own,
        plugins=[SafeCheckpointIO(), *([precision] if precision is not None else [])],
        use_distributed_sampler=False,  # batches are planned for each rank
        enable_progress_bar=False,  # ours is a callback
        enable_model_summary=False,
    )


def checkpoints(folder: Path, every_n_steps: int | None) -> list[ModelCheckpoint]:
    """Best by validation loss, and last."""
    best = ModelCheckpoint(folder, filename="best", monitor=MONITOR, save_top_k=1, enable_version_counter=False)
    last = ModelCheckpoint(folder, filename="last", save_top_k=1, enable_version_counter=False)
    if every_n_steps is None:
        return [best, last]
    often = ModelCheckpoint(
        folder, filename="last", save_top_k=1, every_n_train_steps=every_n_steps, enable_version_counter=False
    )
    return [best, last, often]


def quiet() -> None:
    """Leave out what Lightning prints at every start and what a user need not read."""
    for name in ("lightning.pytorch.utilities.rank_zero", "lightning.fabric.utilities.seed"):
        logging.getLogger(name).setLevel(logging.WARNING)
