"""Build Lightning's Trainer for a recipe, and fit."""

from __future__ import annotations

import logging
import random
import shutil
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import (
    Callback,
    LightningModule,
    Trainer,
    seed_everything,
)
from lightning.pytorch.loggers import Logger
from lightning.pytorch.profilers import AdvancedProfiler, Profiler, PyTorchProfiler, SimpleProfiler
from torch.profiler import schedule

from dialog.config.components import Family, build
from dialog.errors import UserError
from dialog.signals import Stopped
from dialog.training.callbacks.heartbeat import HeartbeatCallback
from dialog.training.callbacks.progress import Progress, Throughput
from dialog.training.callbacks.stopping import LastStep, Patience, build_clock
from dialog.training.checkpoints.best_and_last import BY_LOSS, BestAndLast, Monitor
from dialog.training.checkpoints.checkpoint_io import SafeCheckpointIO
from dialog.training.checkpoints.exact_loop import ExactFitLoop, StopInValidation
from dialog.training.distributed.cluster import check_strategy, check_world_size
from dialog.training.distributed.fsdp import FullyShardedStrategy
from dialog.training.distributed.local_launcher import LocalLauncher
from dialog.training.distributed.signals import StopSignals
from dialog.training.lightning_internals import replace_launcher, replace_signals
from dialog.training.loggers import RecordLogger, RecordPosition
from dialog.training.optimization.allocator import bound_kernel_caches, tune_process
from dialog.training.optimization.precision import device_of, precision_plugin, use_matmul_precision


class Reseed(Callback):
    """Seeds all random generators at each batch, from the seed and the number of the batch.

    Dropout, noise and sampled tokens are then the same in a resumed run, and checkpoints hold no
    generator's state. Batches are counted over all ranks: a step is the same for any split of its
    batches (see `Plan`).
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def on_train_batch_start(
        self, trainer: Trainer, module: LightningModule, batch: object, batch_index: int
    ) -> None:
        """Seed the generators."""
        number = trainer.fit_loop.total_batch_idx * trainer.world_size + trainer.global_rank
        low, high = np.random.SeedSequence((self.seed, number)).generate_state(2).tolist()
        random.seed(low)
        np.random.seed(low)
        torch.manual_seed(high << 32 | low)


class OperatorProfiler(PyTorchProfiler):
    """Profiles operators of five training steps; Lightning's class would replace them by the last
    validation's.
    """

    STEP_FUNCTIONS = frozenset({"training_step"})  # type: ignore[assignment]  # a set in Lightning, which does not change it


def operators(dirpath: Path, filename: str) -> Profiler:
    """Return a profiler of training steps 4 to 8: operators by cost, and a trace."""
    steps = schedule(wait=2, warmup=1, active=5, repeat=1)
    return OperatorProfiler(
        dirpath=dirpath, filename=filename, row_limit=40, schedule=steps, acc_events=True
    )


PROFILERS: Family[Profiler] = Family(
    "profiler",
    {"simple": SimpleProfiler, "advanced": AdvancedProfiler, "pytorch": operators},
    runtime=("dirpath", "filename"),
)
"""Time per hook, per Python function, per operator; each writes ``profile/fit-<name>.txt``, pytorch
also a trace for Chrome or Perfetto.
"""

__all__ = ["Callback", "Logger", "Trainer", "build_trainer", "quiet", "ready_to_fit", "seed"]

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
    on_best: Callable[[dict[str, Any]], None] | None = None,
) -> Trainer:
    """Build the Trainer of a run folder; ``settings`` are Lightning's own arguments.

    ``checkpoints/best.ckpt`` has the best value of the monitored metric, ``checkpoints/last.ckpt``
    the newest state: after each validation, one of them at the last step, and every n steps if set.
    ``on_best`` is called on rank 0 with the content of each new best.ckpt.

    Raises:
        UserError: Lightning rejects the settings.
    """
    arguments = dict(settings)
    for key in ("graphs", "compile"):  # the module's
        del arguments[key]
    check_strategy(arguments["strategy"], arguments["precision"])
    if arguments["strategy"] == "fsdp":
        arguments["strategy"] = FullyShardedStrategy()
        arguments["inference_mode"] = False  # the next step reuses weights gathered in a validation
    use_matmul_precision(arguments.pop("float32_matmul_precision"))
    progress = arguments.pop("enable_progress_bar")
    if name := arguments["profiler"]:
        arguments["profiler"] = build(
            PROFILERS, {"name": name}, dirpath=folder / "profile", filename=name
        )
    precision = precision_plugin(arguments["precision"], device_of(arguments["accelerator"]))
    if precision is not None:
        del arguments["precision"]
    ends = [*(arguments[key] for key in ("max_epochs", "max_steps", "max_time")), patience]
    checkpoints = BestAndLast(
        folder / "checkpoints", monitor=monitor, every_n_steps=every_n_steps, ends=ends
    )
    own: list[Callback] = [
        Reseed(seed),
        Throughput(),
        *build_clock(arguments["max_time"]),
        LastStep(),
        StopInValidation(),
        *(RecordPosition(logger) for logger in loggers if isinstance(logger, RecordLogger)),
        *callbacks,
        checkpoints,
    ]
    if patience is not None:
        own.append(
            Patience(
                monitor.name, mode=monitor.mode, patience=patience, check_on_train_epoch_end=False
            )
        )
    if progress:
        own.append(Progress())
    own.append(HeartbeatCallback())
    try:
        trainer = Trainer(
            **arguments,
            default_root_dir=str(folder),
            logger=list(loggers),
            callbacks=own,
            plugins=[SafeCheckpointIO(on_best), *([precision] if precision is not None else [])],
            use_distributed_sampler=False,  # the sampler plans batches for each rank
            enable_progress_bar=False,  # ours is a callback
            enable_model_summary=False,
        )
    except (MisconfigurationException, ImportError, RuntimeError, TypeError, ValueError) as error:
        raise UserError(str(error)) from error
    check_world_size(trainer.world_size)
    replace_launcher(trainer, LocalLauncher)
    signals = StopSignals(trainer)
    replace_signals(trainer, signals)
    trainer.fit_loop = ExactFitLoop(trainer, checkpoints=checkpoints, signals=signals)
    return trainer


def _checkpoints(trainer: Trainer) -> BestAndLast:
    callback = trainer.checkpoint_callback
    assert isinstance(callback, BestAndLast)
    return callback


@contextmanager
def ready_to_fit(trainer: Trainer, *, advice: str | None = None) -> Iterator[None]:
    """Tune this process for `Trainer.fit` within the block, and translate what it raises.

    `advice` tells what to do after a signal, by default how to resume.

    Raises:
        UserError: the settings do not fit the number of batches.
        KeyboardInterrupt: after SIGINT, with the advice.
        SystemExit: after SIGTERM and SIGUSR1 with 143, after SIGHUP with 129.
    """
    tune_process()
    bound_kernel_caches()
    try:
        yield
    except MisconfigurationException as error:
        raise UserError(f"trainer: {error}") from error
    except ValueError as error:
        if "`val_check_interval`" not in str(error):
            raise
        raise UserError(f"trainer: {error}") from error
    except Stopped as stopped:
        raise exit_of(trainer, stopped, advice) from None
    except SystemExit as error:
        if trainer.interrupted:  # SIGINT before the first step, on which Lightning exits with 1
            raise KeyboardInterrupt from error
        raise


def exit_of(trainer: Trainer, stopped: Stopped, advice: str | None) -> BaseException:
    """Return the exception that ends a process stopped by a signal; the first process prints the
    advice.

    A process that Lightning started exits with 0: on other codes Lightning kills the first process.
    """
    if not trainer.is_global_zero:
        started_here = isinstance(trainer.strategy.cluster_environment, LightningEnvironment)  # type: ignore[attr-defined]
        return SystemExit(0 if started_here else stopped.code)
    resume = (
        f"resume at step {_checkpoints(trainer).step}: python -m dialog train --resume"
        f" {trainer.default_root_dir}"
    )
    message = f"stopped by {stopped}; {advice or resume}"
    if stopped.number == signal.SIGINT:
        return KeyboardInterrupt(message)
    log.info(message)
    return SystemExit(stopped.code)


@contextmanager
def removed_on_error(folder: Path, trainer: Trainer) -> Iterator[None]:
    """Remove the run folder if training fails before its first step."""
    try:
        yield
    except UserError:
        if trainer.global_step == 0 and trainer.is_global_zero:
            shutil.rmtree(folder)
        raise


def seed(number: int) -> None:
    """Seed the random generators of Python, NumPy and torch."""
    seed_everything(number, verbose=False)


def quiet() -> None:
    """Silence messages of Lightning and torch that need no action."""
    # torchmetrics has already summed
    warnings.filterwarnings("ignore", message=r".*sync_dist=True")
    # inside Lightning 2.6
    warnings.filterwarnings("ignore", message=r".*isinstance\(treespec, LeafSpec\)")
    # steps are logged across epochs
    warnings.filterwarnings("ignore", message="The number of training batches")
    # the loader repeats its batches itself
    warnings.filterwarnings("ignore", message="You requested to overfit")
    # it is not written to
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view")
    # same
    warnings.filterwarnings(
        "ignore", message="RNN module weights are not part of single contiguous chunk"
    )
    names = ("lightning.pytorch.utilities.rank_zero", "lightning.fabric.utilities.seed")
    for name in (*names, "lightning.fabric.utilities.distributed"):
        logging.getLogger(name).setLevel(logging.WARNING)
