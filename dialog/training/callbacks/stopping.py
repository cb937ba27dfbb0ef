"""Callbacks that end training: a clock, a last step that is logged, early stopping.

Class names are keys in checkpoints and must not change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import EarlyStopping, Timer
from torch.optim import Optimizer

from dialog.errors import UserError

DURATION = re.compile(r"(\d+):(\d\d):(\d\d):(\d\d)")
UNITS = ("days", "hours", "minutes", "seconds")


class Clock(Timer):
    """Ends training with the optimizer step in which its duration passes; a resumed run has the
    remaining time.

    Validation counts, except the last one, which the trainer runs before it stops. The time is read
    before the update, so that the step is logged like every last step.
    """

    def __init__(self, duration: timedelta) -> None:
        super().__init__(duration, verbose=False)

    def on_before_optimizer_step(
        self, trainer: Trainer, module: LightningModule, optimizer: Optimizer
    ) -> None:
        """Set ``should_stop`` if the time is over."""
        super().on_train_batch_end(trainer)

    def on_train_batch_end(self, *_: object) -> None:
        """Do nothing: the time is read between two optimizer steps only."""


def build_clock(max_time: object) -> list[Timer]:
    """Build the callback of ``trainer.max_time``, if it is set."""
    return [] if max_time is None else [Clock(duration_of(max_time))]


def duration_of(max_time: object) -> timedelta:
    """Return the duration that ``trainer.max_time`` sets: DD:HH:MM:SS, or {hours: 8, minutes: 30}.

    Raises:
        UserError: another format, or a duration of 0.
    """
    if isinstance(max_time, str) and (match := DURATION.fullmatch(max_time.strip())):
        parts = dict(zip(UNITS, map(float, match.groups()), strict=True))
    elif isinstance(max_time, Mapping) and set(max_time) <= {*UNITS, "weeks"}:
        parts = dict(max_time)
    else:
        parts = {}
    if not all(isinstance(part, int | float) for part in parts.values()) or not any(parts.values()):
        raise UserError(
            "max_time must be DD:HH:MM:SS, such as 00:08:30:00, or {hours: 8.5}, not"
            f" {max_time!r}"
        )
    return timedelta(**parts)


class LastStep(Callback):
    """Logs the step at which ``max_steps`` or ``max_epochs`` ends training, also between two
    logging steps.
    """

    def on_before_optimizer_step(
        self, trainer: Trainer, module: LightningModule, optimizer: Optimizer
    ) -> None:
        """Set ``should_stop``, upon which module and trainer log this step."""
        last = trainer.is_last_batch and trainer.current_epoch + 1 == trainer.max_epochs
        if last or trainer.global_step + 1 == trainer.max_steps:
            trainer.should_stop = True


class Ending(Callback):
    """Keeps why training ended early: patience or the clock; empty if neither did."""

    def __init__(self) -> None:
        self.reason = ""

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Look at the clock and at early stopping."""
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            if isinstance(callback, Patience) and callback.wait_count >= callback.patience:
                self.reason = f"no improvement in {callback.patience} validations"
            elif isinstance(callback, Clock) and (callback.time_remaining() or 0) <= 0:
                self.reason = "time limit"


class Patience(EarlyStopping):
    """Early stopping that keeps the recipe's patience when a run is resumed with a different
    value.
    """

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load all but the patience."""
        super().load_state_dict({**state_dict, "patience": self.patience})
