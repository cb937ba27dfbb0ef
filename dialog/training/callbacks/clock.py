"""Training for so long."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Timer

from dialog.errors import UserError

SPELT = re.compile(r"(\d+):(\d\d):(\d\d):(\d\d)")
UNITS = ("days", "hours", "minutes", "seconds")


class Clock(Timer):
    """Ends training after the first optimizer step at which its time is over; a run that is gone on with has the rest.

    Validation is part of the time, but for the last one, which the trainer makes before it stops.
    """

    def __init__(self, duration: timedelta) -> None:
        super().__init__(duration, verbose=False)
        self.steps = 0

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, outputs: object, batch: object, batch_index: int
    ) -> None:
        """Look at the clock between two steps only."""
        if trainer.global_step != self.steps:
            self.steps = trainer.global_step
            super().on_train_batch_end(trainer, module, outputs, batch, batch_index)


def clock(max_time: object) -> list[Timer]:
    """The callback of a recipe's ``trainer.max_time``, where it has one: DD:HH:MM:SS, or {hours: 8, minutes: 30}.

    Raises:
        UserError: it is neither, or no time at all.
    """
    if max_time is None:
        return []
    if isinstance(max_time, str) and (found := SPELT.fullmatch(max_time.strip())):
        parts = dict(zip(UNITS, map(float, found.groups()), strict=True))
    elif isinstance(max_time, Mapping) and set(max_time) <= {*UNITS, "weeks"}:
        parts = dict(max_time)
    else:
        parts = {}
    if not all(isinstance(part, int | float) for part in parts.values()) or not any(parts.values()):
        raise UserError(f"max_time must be DD:HH:MM:SS, such as 00:08:30:00, or {{hours: 8.5}}, not {max_time!r}")
    return [Clock(timedelta(**parts))]
