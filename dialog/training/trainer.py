"""Lightning's Trainer as a recipe sets it."""

from __future__ import annotations

import logging
import math
import shutil
import signal
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities.exceptions import SIGTERMException

from dialog.errors import UserError
from dialog.training.callbacks.progress import Progress, Throughput
from dialog.training.callbacks.watching import Watching
from dialog.training.checkpoint_io import SafeCheckpointIO
from dialog.training.launch import check_launch
from dialog.training.launcher import use_launcher
from dialog.training.precision import device_of, precision_plugin
from dialog.training.profilers import build_profiler

__all__ = ["Callback", "Logger", "Trainer", "build_trainer", "fit", "quiet", "seed"]

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
    validation, of which the last is at the last step, and every n steps if asked.

    Raises:
        UserError: Lightning refuses the settings.
    """
    arguments = dict(settings)
    progress = arguments.pop("enable_progress_bar")
    arguments["profiler"] = build_profiler(arguments["profiler"], folder)
    precision = precision_plugin(arguments["precision"], device_of(arguments["accelerator"]))
    if precision is not None:
        del arguments["precision"]
    own: list[Callback] = [
        Interrupt(),
        Throughput(),
        LastStep(),
        *checkpoints(folder / "checkpoints", every_n_steps),
        *callbacks,
    ]
    if patience is not None:
        own.append(EarlyStopping(MONITOR, patience=patience, check_finite=True, check_on_train_epoch_end=False))
    if progress:
        own.append(Progress())
    own.append(Watching())
    try:
        made = Trainer(
            **arguments,
            default_root_dir=str(folder),
            logger=list(loggers),
            callbacks=own,
            plugins=[SafeCheckpointIO(), *([precision] if precision is not None else [])],
            use_distributed_sampler=False,  # batches are planned for each rank
            enable_progress_bar=False,  # ours is a callback
            enable_model_summary=False,
        )
    except (MisconfigurationException, ImportError, RuntimeError, TypeError, ValueError) as error:
        raise UserError(str(error)) from error
    check_launch(made.world_size)
    use_launcher(made)
    return made


def best_loss(trainer: Trainer) -> float:
    """The lowest validation loss; infinite if none was finite."""
    best = trainer.checkpoint_callback
    assert isinstance(best, ModelCheckpoint)
    return math.inf if best.best_model_score is None else float(best.best_model_score)


class Interrupt(Callback):
    """An interrupt (SIGINT) that code on the way has swallowed is raised again at the next batch."""

    def __init__(self) -> None:
        self.came = False

    def setup(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        """Listen, where nobody else does."""
        mine = threading.current_thread() is threading.main_thread()
        listener = signal.getsignal(signal.SIGINT)
        another = getattr(listener, "__func__", None) is Interrupt._take  # of a trainer that came to no end
        if mine and (another or listener is signal.default_int_handler):
            signal.signal(signal.SIGINT, self._take)

    def teardown(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        """Listen no more."""
        self._leave()

    def on_exception(self, trainer: Trainer, module: LightningModule, exception: BaseException) -> None:
        """Nor after what ends a training before its time."""
        self._leave()

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, batch: object, batch_index: int) -> None:
        """Raise what was lost."""
        if self.came:
            raise KeyboardInterrupt

    def _leave(self) -> None:
        if signal.getsignal(signal.SIGINT) == self._take:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _take(self, number: int, frame: object) -> None:
        self.came = True
        raise KeyboardInterrupt


class LastStep(Callback):
    """Training is validated where ``max_steps`` or ``max_epochs`` ends it, wherever the validations before it fell."""

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, outputs: object, batch: object, batch_index: int
    ) -> None:
        """A trainer that is told to stop validates first."""
        last = trainer.is_last_batch and trainer.current_epoch + 1 == trainer.max_epochs
        if last or trainer.global_step == trainer.max_steps:
            trainer.check_val_every_n_epoch = 1
            trainer.should_stop = True


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


def fit(trainer: Trainer, module: LightningModule, data: LightningDataModule) -> None:
    """Train.

    Raises:
        UserError: Lightning refuses the settings for so many batches.
        KeyboardInterrupt: at SIGINT, for which Lightning exits with 1.
        SystemExit: with 143, at SIGTERM.
    """
    try:
        trainer.fit(module, data)
    except MisconfigurationException as error:
        raise UserError(f"trainer: {error}") from error
    except ValueError as error:
        if "`val_check_interval`" not in str(error):
            raise
        raise UserError(f"trainer: {error}") from error
    except SIGTERMException as error:
        raise SystemExit(128 + signal.SIGTERM) from error
    except SystemExit as error:
        if trainer.interrupted:
            raise KeyboardInterrupt from error
        raise


@contextmanager
def nothing_left(folder: Path, trainer: Trainer) -> Iterator[None]:
    """A run that is refused before its first step leaves no folder."""
    try:
        yield
    except UserError:
        if trainer.global_step == 0 and trainer.is_global_zero:
            shutil.rmtree(folder)
        raise


def seed(number: int) -> None:
    """Start the random generators of Python, NumPy and torch from a number."""
    seed_everything(number, verbose=False)


def quiet() -> None:
    """Leave out what Lightning prints at every start and what a user need not read."""
    warnings.filterwarnings("ignore", message=r".*sync_dist=True")  # torchmetrics has summed by then
    warnings.filterwarnings("ignore", message=r".*isinstance\(treespec, LeafSpec\)")  # inside Lightning 2.6
    warnings.filterwarnings("ignore", message="You requested to overfit")  # and the loader repeats its batches
    inside = ("lightning.pytorch.utilities.rank_zero", "lightning.fabric.utilities.seed")
    for name in (*inside, "lightning.fabric.utilities.distributed"):
        logging.getLogger(name).setLevel(logging.WARNING)
