"""One trial of a search: what its validations say, and whether it is worth going on."""

from __future__ import annotations

import math
from collections.abc import Callable

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback

from dialog.training.module import DialogModule

OBJECTIVE = "validation/bits_per_byte"
"""What is compared: it means the same for any tokenizer."""


class PrunedError(Exception):
    """A training that was given up because others are better."""


class TrialWatch(Callback):
    """Keeps the lowest value of the objective and what was spent, and gives up where ``stop`` says so.

    Args:
        stop: Called with the number of a validation (from 1) and its value; true ends the training.

    Raises:
        PrunedError: when it is given up.
    """

    def __init__(self, stop: Callable[[int, float], bool]) -> None:
        self.stop = stop
        self.values: list[float] = []
        self.steps = 0
        self.target_tokens = 0

    @property
    def lowest(self) -> float:
        """The lowest value that is a number; infinite if none is."""
        return min((value for value in self.values if math.isfinite(value)), default=math.inf)

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, outputs: object, batch: object, batch_index: int
    ) -> None:
        """Count."""
        assert isinstance(module, DialogModule)
        self.steps, self.target_tokens = trainer.global_step, module.target_tokens

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Note, and perhaps give up."""
        if trainer.sanity_checking:
            return
        self.values.append(float(trainer.callback_metrics[OBJECTIVE]))
        if self.stop(len(self.values), self.values[-1]):
            raise PrunedError
