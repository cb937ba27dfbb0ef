"""Progress bar and throughput."""

from __future__ import annotations

import math
import time
from functools import partial

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback, Timer
from tqdm import tqdm

from dialog.data.batching import Batch
from dialog.report.progress import ProgressBars
from dialog.training.lightning_internals import is_logging_step
from dialog.training.module import DialogModule

SHOWN = (
    ("loss", "train/loss", ".3f"),
    ("tokens/s", "train/tokens_per_second", ",.0f"),
    ("validation", "validation/loss", ".3f"),
)
"""Label, metric and format of what is shown beside the step."""


class Throughput(Callback):
    """Logs ``train/tokens`` (target tokens so far) and ``train/tokens_per_second``, over all
    ranks.
    """

    def __init__(self) -> None:
        self.last = (0.0, 0)
        self.steps = 0

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Start the clock."""
        self.last = (time.monotonic(), _tokens(module))
        self.steps = trainer.global_step

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Restart the clock: validation is not training time."""
        self.last = (time.monotonic(), _tokens(module))

    def on_train_batch_end(
        self,
        trainer: Trainer,
        module: LightningModule,
        outputs: object,
        batch: Batch,
        batch_index: int,
    ) -> None:
        """Log after the last micro-batch of a logging step; at other steps ranks exchange
        nothing.
        """
        steps = self.steps
        self.steps = trainer.global_step
        if self.steps == steps or not is_logging_step(trainer):
            return
        tokens = _tokens(module)
        started, before = self.last
        rate = (tokens - before) / max(time.monotonic() - started, 1e-9)
        for name, value in (("train/tokens", tokens), ("train/tokens_per_second", rate)):
            number = torch.tensor(
                value,
                dtype=torch.float64,
                device=module.device if trainer.world_size > 1 else "cpu",
            )
            module.log(name, number, batch_size=1, reduce_fx="sum", sync_dist=True)
        self.last = (time.monotonic(), tokens)


def _tokens(module: LightningModule) -> int:
    assert isinstance(module, DialogModule)
    return module.target_tokens


class Progress(Callback):
    """Shows step, epoch, losses, tokens per second and time left, which ``max_time`` limits."""

    def __init__(self) -> None:
        self.bars = ProgressBars()
        self.total: int | None = None
        self.clock: Timer | None = None

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Read the number of steps, which only ``max_time`` leaves open."""
        self.bars.quiet = not trainer.is_global_zero
        steps = trainer.estimated_stepping_batches
        self.total = int(steps) if 0 < steps < math.inf else None
        clocks = (one for one in trainer.callbacks if isinstance(one, Timer))  # type: ignore[attr-defined]
        self.clock = next(clocks, None)

    def on_train_batch_end(
        self,
        trainer: Trainer,
        module: LightningModule,
        outputs: object,
        batch: Batch,
        batch_index: int,
    ) -> None:
        """Update; values are read from the device only if they are shown."""
        done = trainer.global_step
        left = self._limit(done)
        fraction = None
        if self.clock is not None and left is not None:
            passed = self.clock.time_elapsed()
            fraction = passed / max(passed + left, 1e-9)
        describe = partial(_figures, trainer, left)
        self.bars.show("training", done, self.total, describe, fraction=fraction)

    def _limit(self, done: int) -> float | None:
        """Return the seconds that ``max_time`` leaves, if it ends training before the last step."""
        left = None if self.clock is None else self.clock.time_remaining()
        if self.clock is None or left is None or not self.total:
            return None
        needed = self.clock.time_elapsed() * (self.total - done) / max(1, done)
        return left if left < needed else None

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Close the bar."""
        self.bars.close()

    def on_exception(
        self, trainer: Trainer, module: LightningModule, exception: BaseException
    ) -> None:
        """Close the bar."""
        self.bars.close()


def _figures(trainer: Trainer, left: float | None) -> str:
    """Return the seconds that ``max_time`` leaves, epoch, losses and speed, as far as they have
    been logged.
    """
    values = trainer.callback_metrics
    figures = [f"epoch {trainer.current_epoch + 1}"]
    if left is not None:
        figures.insert(0, f"at most {tqdm.format_interval(max(0.0, left))} left")
    for name, key, form in SHOWN:
        if key in values:
            figures.append(f"{name} {values[key].item():{form}}")
    return ", ".join(figures)
