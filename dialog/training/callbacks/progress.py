"""Progress bar and throughput."""

from __future__ import annotations

import sys
import time
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from tqdm import tqdm

from dialog.data.batching import Batch
from dialog.training.lightning_internals import is_logging_step
from dialog.training.module import DialogModule

EVERY = 30.0
"""Seconds between two lines without a terminal."""
REFRESH = 0.2
"""Seconds between two updates of the bar."""


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
    """Bar with loss, tokens per second and time left; without a terminal, a line every `EVERY`
    seconds.
    """

    def __init__(self) -> None:
        self.bar: tqdm[Any] | None = None
        self.printed = 0.0

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Open the bar."""
        if trainer.is_global_zero:
            steps = trainer.estimated_stepping_batches
            total = int(steps) if steps != float("inf") and steps > 0 else None
            plain = not sys.stderr.isatty()
            done = trainer.global_step
            options: dict[str, Any] = {
                "total": total,
                "initial": done,
                "unit": "step",
                "dynamic_ncols": True,
            }
            self.bar = tqdm(**options, disable=plain or None, leave=False)
            self.began = time.monotonic()
            self.total = total
            self.first = done

    def on_train_batch_end(
        self,
        trainer: Trainer,
        module: LightningModule,
        outputs: object,
        batch: Batch,
        batch_index: int,
    ) -> None:
        """Update the bar, not at every step: the values are read from the device."""
        if self.bar is None or trainer.global_step == self.bar.n:
            return
        now = time.monotonic()
        if now - self.printed < (EVERY if self.bar.disable else REFRESH):
            return
        values = trainer.callback_metrics
        if self.bar.disable and "train/loss" not in values:  # not logged yet
            return
        self.printed = now
        values_shown = {"epoch": str(trainer.current_epoch + 1), "loss": "-", "tokens/s": "-"}
        if "train/loss" in values:
            values_shown["loss"] = f"{values['train/loss'].item():.3f}"
        if "train/tokens_per_second" in values:
            values_shown["tokens/s"] = f"{values['train/tokens_per_second'].item():,.0f}"
        if "validation/loss" in values:
            values_shown["validation"] = f"{values['validation/loss'].item():.3f}"
        if self.bar.disable:
            self._print_line(trainer.global_step, values_shown, now)
        else:
            self.bar.set_postfix(values_shown, refresh=False)
            self.bar.update(trainer.global_step - self.bar.n)

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Close the bar."""
        if self.bar is not None:
            self.bar.close()

    def on_exception(
        self, trainer: Trainer, module: LightningModule, exception: BaseException
    ) -> None:
        """Close the bar."""
        self.on_train_end(trainer, module)

    def _print_line(self, step: int, values: dict[str, str], now: float) -> None:
        left = (
            f", {(self.total - step) * (now - self.began) / (step - self.first):.0f} s left"
            if self.total
            else ""
        )
        of = f"/{self.total}" if self.total else ""
        figures = ", ".join(f"{key} {value}" for key, value in values.items())
        print(f"step {step}{of}: {figures}{left}", file=sys.stderr, flush=True)  # noqa: T201 - progress
