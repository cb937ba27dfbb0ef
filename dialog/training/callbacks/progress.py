"""How far training is, how fast, and how long it will take."""

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

BLINK = 0.2
"""Seconds between two looks at the bar."""


class Throughput(Callback):
    """Logs ``train/tokens`` (target tokens seen) and ``train/tokens_per_second``, over all processes."""

    def __init__(self) -> None:
        self.since = (0.0, 0)

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Start the clock."""
        self.since = (time.monotonic(), _tokens(module))

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Validation is no training time."""
        self.since = (time.monotonic(), _tokens(module))

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, outputs: object, batch: Batch, batch_index: int
    ) -> None:
        """Log at the trainer's logging steps; at others no process asks another."""
        if not is_logging_step(trainer):
            return
        tokens = _tokens(module)
        begun, before = self.since
        rate = (tokens - before) / max(time.monotonic() - begun, 1e-9)
        for name, value in (("train/tokens", tokens), ("train/tokens_per_second", rate)):
            number = torch.tensor(value, dtype=torch.float64, device=module.device if trainer.world_size > 1 else "cpu")
            module.log(name, number, batch_size=1, reduce_fx="sum", sync_dist=True)
        self.since = (time.monotonic(), tokens)


def _tokens(module: LightningModule) -> int:
    assert isinstance(module, DialogModule)
    return module.target_tokens


class Progress(Callback):
    """A bar with loss, tokens per second and time left; where there is no terminal, a plain line now and then."""

    def __init__(self, *, every_seconds: float = 30.0) -> None:
        self.every = every_seconds
        self.bar: tqdm[Any] | None = None
        self.printed = 0.0

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Open the bar."""
        if trainer.is_global_zero:
            steps = trainer.estimated_stepping_batches
            total = int(steps) if steps != float("inf") and steps > 0 else None
            plain = not sys.stderr.isatty()
            done = trainer.global_step
            options: dict[str, Any] = {"total": total, "initial": done, "unit": "step", "dynamic_ncols": True}
            self.bar = tqdm(**options, disable=plain or None, leave=False)
            self.began, self.total, self.first = time.monotonic(), total, done

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, outputs: object, batch: Batch, batch_index: int
    ) -> None:
        """Move on, now and then: what is shown is asked from the device."""
        if self.bar is None or trainer.global_step == self.bar.n:
            return
        now = time.monotonic()
        if now - self.printed < (self.every if self.bar.disable else BLINK):
            return
        values = trainer.callback_metrics
        if self.bar.disable and "train/loss" not in values:  # nothing was logged yet
            return
        self.printed = now
        shown = {"epoch": str(trainer.current_epoch + 1), "loss": "-", "tokens/s": "-"}
        if "train/loss" in values:
            shown["loss"] = f"{values['train/loss'].item():.3f}"
        if "train/tokens_per_second" in values:
            shown["tokens/s"] = f"{values['train/tokens_per_second'].item():,.0f}"
        if "validation/loss" in values:
            shown["validation"] = f"{values['validation/loss'].item():.3f}"
        if self.bar.disable:
            self._say(trainer.global_step, shown, now)
        else:
            self.bar.set_postfix(shown, refresh=False)
            self.bar.update(trainer.global_step - self.bar.n)

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Close the bar."""
        if self.bar is not None:
            self.bar.close()

    def on_exception(self, trainer: Trainer, module: LightningModule, exception: BaseException) -> None:
        """Leave the terminal clean."""
        self.on_train_end(trainer, module)

    def _say(self, step: int, shown: dict[str, str], now: float) -> None:
        """A plain line for a log file."""
        left = f", {(self.total - step) * (now - self.began) / (step - self.first):.0f} s left" if self.total else ""
        of = f"/{self.total}" if self.total else ""
        values = ", ".join(f"{key} {value}" for key, value in shown.items())
        print(f"step {step}{of}: {values}{left}", file=sys.stderr, flush=True)  # noqa: T201 - progress
