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

from dialog.errors import UserError

DURATION = re.compile(r"(\d+):(\d\d):(\d\d):(\d\d)")
UNITS = ("days", "hours", "minutes", "seconds")


class Clock(Timer):
    """Ends training after the first optimizer step past its duration; a resumed run has the remaining time.

    Validation counts, except the last one, which the trainer runs before it stops.
    """

    def __init__(self, duration: timedelta) -> None:
        super().__init__(duration, verbose=False)
        self.steps = 0

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, outputs: object, batch: object, batch_index: int
    ) -> None:
        """Check the time between two optimizer steps only."""
        if trainer.global_step != self.steps:
            self.steps = trainer.global_step
            super().on_train_batch_end(trainer, module, outputs, batch, batch_index)


def build_clock(max_time: object) -> list[Timer]:
    """Build the callback of ``trainer.max_time``, if it is set: DD:HH:MM:SS, or {hours: 8, minutes: 30}.

    Raises:
        UserError: another format, or a duration of 0.
    """
    if max_time is None:
        return []
    if isinstance(max_time, str) and (match := DURATION.fullmatch(max_time.strip())):
        parts = dict(zip(UNITS, map(float, match.groups()), strict=True))
    elif isinstance(max_time, Mapping) and set(max_time) <= {*UNITS, "weeks"}:
        parts = dict(max_time)
    else:
        parts = {}
    if not all(isinstance(part, int | float) for part in parts.values()) or not any(parts.values()):
        raise UserError(f"max_time must be DD:HH:MM:SS, such as 00:08:30:00, or {{hours: 8.5}}, not {max_time!r}")
    return [Clock(timedelta(**parts))]


class LastStep(Callback):
    """Logs the step at which ``max_steps`` or ``max_epochs`` ends training, also between two logging steps."""

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, outputs: object, batch: object, batch_index: int
    ) -> None:
        """Set ``should_stop``, upon which the trainer logs."""
        last = trainer.is_last_batch and trainer.current_epoch + 1 == trainer.max_epochs
        if last or trainer.global_step == trainer.max_steps:
            trainer.should_stop = True


class Patience(EarlyStopping):
    """Early stopping that keeps the recipe's patience when a run is resumed with a different value."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load all but the patience."""
        super().load_state_dict({**state_dict, "patience": self.patience})
