"""Keep two states of a training: the best validation, and the newest to resume from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.trainer.states import TrainerFn

from dialog.errors import UserError
from dialog.training.checkpoints.checkpoint_io import BEST, LAST

MONITORS: Mapping[str, str] = {
    "validation/loss": "min",
    "validation/perplexity": "min",
    "validation/bits_per_byte": "min",
    "validation/token_accuracy": "max",
}
"""Metrics that every validation logs, and whether their minimum or maximum is best."""


class Monitor(NamedTuple):
    """Metric that selects the best validation."""

    name: str
    mode: str

    @property
    def worst(self) -> float:
        """Value that any finite one is better than."""
        return math.inf if self.mode == "min" else -math.inf

    def better(self, value: float, than: float) -> bool:
        """Return whether a value is finite and better than another."""
        return math.isfinite(value) and (value < than if self.mode == "min" else value > than)


BY_LOSS = Monitor("validation/loss", MONITORS["validation/loss"])


def monitor_named(name: str) -> Monitor:
    """Return the metric of ``checkpoint.monitor``.

    Raises:
        UserError: no validation logs it.
    """
    if name not in MONITORS:
        raise UserError(f"no validation logs {name!r}; choose from {', '.join(MONITORS)}")
    return Monitor(name, MONITORS[name])


class BestAndLast(Checkpoint):
    """Writes ``best.ckpt`` at the best validation, and ``last.ckpt``, which a run resumes from.

    best.ckpt holds the weights as they were validated; a value that is not finite is never the
    best. `exact_loop.ExactEpochLoop` saves last.ckpt between steps: after a validation, and every n
    steps if set. The best is written first, so that last.ckpt never refers to a best checkpoint
    that does not exist.

    Args:
        folder: Folder of the checkpoints.
        monitor: Metric that selects the best validation.
        every_n_steps: Optimizer steps between two saves.
        ends: Settings that decide when training ends; changing one lets a finished run continue.
    """

    state_key = "Checkpoints"  # in checkpoints; must not change

    def __init__(
        self,
        folder: Path,
        *,
        monitor: Monitor,
        every_n_steps: int | None = None,
        ends: Sequence[object] = (),
    ) -> None:
        self.folder = folder
        self.monitor = monitor
        self.every_n_steps = every_n_steps
        self.ends = list(ends)
        self.best = monitor.worst
        self.validated = False
        self.stopping = False
        self.step = 0
        """Step of last.ckpt."""

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Save best.ckpt if this validation is the best."""
        if trainer.state.fn != TrainerFn.FITTING or trainer.sanity_checking:
            return
        self.validated = True
        value = float(trainer.callback_metrics[self.monitor.name])
        if self.monitor.better(value, self.best):
            self.best = value
            trainer.save_checkpoint(self.folder / BEST, False)  # with optimizer and loops

    def on_step(self, trainer: Trainer) -> None:
        """Save last.ckpt if it is due; called when a step and its validation are complete."""
        if self.validated or (self.every_n_steps and trainer.global_step % self.every_n_steps == 0):
            self.save(trainer)

    def save(self, trainer: Trainer) -> None:
        """Save last.ckpt."""
        self.validated = False
        self.stopping = trainer.should_stop
        trainer.save_checkpoint(self.folder / LAST, False)
        self.step = trainer.global_step

    def state_dict(self) -> dict[str, Any]:
        """Return the best value, and whether training has ended."""
        return {"best": self.best, "stopping": self.stopping, "ends": self.ends}

    def on_load_checkpoint(
        self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Restore the best value; stop again if training had ended by the same settings."""
        state = checkpoint["callbacks"][self.state_key]
        self.best = state["best"]
        self.step = checkpoint["global_step"]
        trainer.should_stop = state["stopping"] and state["ends"] == self.ends
