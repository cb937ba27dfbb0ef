"""Lightning's Trainer as a recipe sets it."""

from __future__ import annotations

import logging
import shutil
import signal
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import EarlyStopping
from lightning.pytorch.loggers import Logger

from dialog.errors import UserError
from dialog.training.callbacks.clock import clock
from dialog.training.callbacks.heartbeat import Watching
from dialog.training.callbacks.profilers import build_profiler
from dialog.training.callbacks.progress import Progress, Throughput
from dialog.training.callbacks.reseed import Reseed
from dialog.training.checkpoints.best_and_last import Checkpoints
from dialog.training.checkpoints.checkpoint_io import SafeCheckpointIO
from dialog.training.checkpoints.exact_loop import ExactFitLoop, StopInValidation
from dialog.training.checkpoints.monitors import BY_LOSS, Monitor
from dialog.training.distributed.cluster import check_launch, check_strategy
from dialog.training.distributed.fsdp import FullyShardedStrategy
from dialog.training.distributed.local_launcher import use_launcher
from dialog.training.distributed.signals import Signals, Stopped
from dialog.training.lightning_internals import replace_signals
from dialog.training.loggers import RecordLogger
from dialog.training.optimization.allocator import bound_kernel_caches, keep_freed_memory
from dialog.training.optimization.precision import device_of, precision_plugin

__all__ = ["Callback", "Logger", "Trainer", "build_trainer", "fit", "quiet", "seed"]

log = logging.getLogger("dialog")


def build_trainer(
    settings: Mapping[str, Any],
    *,
    folder: Path,
    loggers: Sequence[Logger],
    seed: int,
    every_n_steps: int | None,
    patience: int | None,
    monitor: Monitor = BY_LOSS,
    callbacks: Sequence[Callback] = (),
) -> Trainer:
    """A Trainer for a run folder: ``settings`` are Lightning's own arguments.

    ``checkpoints/best.ckpt`` has the best of the metric that is monitored, ``checkpoints/last.ckpt`` the newest state:
    after each validation, of which the last is at the last step, and every n steps if asked.

    Raises:
        UserError: Lightning refuses the settings.
    """
    arguments = dict(settings)
    check_strategy(arguments["strategy"], arguments["precision"])
    if arguments["strategy"] == "fsdp":
        arguments["strategy"] = FullyShardedStrategy()
        arguments["inference_mode"] = False  # what is gathered in a validation serves the next step too
    progress = arguments.pop("enable_progress_bar")
    arguments["profiler"] = build_profiler(arguments["profiler"], folder)
    precision = precision_plugin(arguments["precision"], device_of(arguments["accelerator"]))
    if precision is not None:
        del arguments["precision"]
    ends = [*(arguments[key] for key in ("max_epochs", "max_steps", "max_time")), patience]
    checkpoints = Checkpoints(folder / "checkpoints", monitor=monitor, every_n_steps=every_n_steps, ends=ends)
    own: list[Callback] = [
        Reseed(seed),
        Throughput(),
        *clock(arguments["max_time"]),
        LastStep(),
        StopInValidation(),
        *(Record(each) for each in loggers if isinstance(each, RecordLogger)),
        *callbacks,
        checkpoints,
    ]
    if patience is not None:
        own.append(Patience(monitor.name, mode=monitor.mode, patience=patience, check_on_train_epoch_end=False))
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
    signals = Signals(made)
    replace_signals(made, signals)
    made.fit_loop = ExactFitLoop(made, checkpoints=checkpoints, signals=signals)
    return made


def best_value(trainer: Trainer) -> float:
    """The best of the metric that is monitored; infinite if none was finite."""
    return _checkpoints(trainer).best


def _checkpoints(trainer: Trainer) -> Checkpoints:
    found = trainer.checkpoint_callback
    assert isinstance(found, Checkpoints)
    return found


class LastStep(Callback):
    """The step at which ``max_steps`` or ``max_epochs`` ends training is logged, wherever it falls."""

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, outputs: object, batch: object, batch_index: int
    ) -> None:
        """A trainer that is told to stop logs first."""
        last = trainer.is_last_batch and trainer.current_epoch + 1 == trainer.max_epochs
        if last or trainer.global_step == trainer.max_steps:
            trainer.should_stop = True


class Patience(EarlyStopping):
    """Early stopping whose patience is the recipe's, also where a run is gone on with that had another."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """All but the patience."""
        super().load_state_dict({**state_dict, "patience": self.patience})


class Record(Callback):
    """Where the record of a run was at a checkpoint: each logged step is in it once, however often it was stopped."""

    def __init__(self, logger: RecordLogger) -> None:
        self.logger = logger

    def state_dict(self) -> dict[str, Any]:
        """Its size and time."""
        return {"size": self.logger.size, "seconds": self.logger.seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on there."""
        self.logger.go_on(**state_dict)


def fit(trainer: Trainer, module: LightningModule, data: LightningDataModule, checkpoint: Path | None = None) -> None:
    """Train, from a checkpoint on if there is one.

    Raises:
        UserError: Lightning refuses the settings for so many batches.
        KeyboardInterrupt: at SIGINT, with how to go on.
        SystemExit: at SIGTERM and SIGUSR1, with 143.
    """
    keep_freed_memory()
    bound_kernel_caches()
    try:
        trainer.fit(module, data, ckpt_path=checkpoint, weights_only=True)
    except MisconfigurationException as error:
        raise UserError(f"trainer: {error}") from error
    except ValueError as error:
        if "`val_check_interval`" not in str(error):
            raise
        raise UserError(f"trainer: {error}") from error
    except Stopped as stopped:
        raise leaving(trainer, stopped) from None
    except SystemExit as error:
        if trainer.interrupted:  # by a SIGINT before the first step, for which Lightning exits with 1
            raise KeyboardInterrupt from error
        raise


def leaving(trainer: Trainer, stopped: Stopped) -> BaseException:
    """How a process ends that a signal has stopped; the first one says how to go on.

    A process that Lightning has started exits with 0: at anything else Lightning kills the first one.
    """
    if not trainer.is_global_zero:
        started = isinstance(trainer.strategy.cluster_environment, LightningEnvironment)  # type: ignore[attr-defined]
        return SystemExit(0 if started else stopped.code)
    step = _checkpoints(trainer).step
    said = f"stopped by {stopped}; to go on from step {step}: dialog-seq2seq train --resume {trainer.default_root_dir}"
    if stopped.number == signal.SIGINT:
        return KeyboardInterrupt(said)
    log.info(said)
    return SystemExit(stopped.code)


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
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view")  # into which nobody writes
    warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")  # same
    inside = ("lightning.pytorch.utilities.rank_zero", "lightning.fabric.utilities.seed")
    for name in (*inside, "lightning.fabric.utilities.distributed"):
        logging.getLogger(name).setLevel(logging.WARNING)
