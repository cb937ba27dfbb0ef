"""Watch one trial of a sweep: its validations, and whether it is pruned."""

from __future__ import annotations

import math
from collections.abc import Callable

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback

from dialog.training.module import DialogModule

OBJECTIVE = "validation/bits_per_byte"
"""Metric that trials are compared by; comparable between tokenizers."""


class PrunedError(Exception):
    """The trial was stopped because others are better."""


class TrialWatch(Callback):
    """Records the objective at each validation and the cost so far; prunes when ``stop`` returns
    true.

    Args:
        stop: Called with the number of a validation (from 1), its value, and the fraction of the
            trial's steps that are done (0 if time alone limits the trial); true ends training.

    Raises:
        PrunedError: ``stop`` returned true.
    """

    def __init__(self, stop: Callable[[int, float, float], bool]) -> None:
        self.stop = stop
        self.values: list[float] = []
        self.steps = 0
        self.target_tokens = 0

    @property
    def lowest(self) -> float:
        """Lowest finite value; infinity if none is finite."""
        return min((value for value in self.values if math.isfinite(value)), default=math.inf)

    def on_train_batch_end(
        self,
        trainer: Trainer,
        module: LightningModule,
        outputs: object,
        batch: object,
        batch_index: int,
    ) -> None:
        """Count steps and tokens."""
        assert isinstance(module, DialogModule)
        self.steps = trainer.global_step
        self.target_tokens = module.target_tokens

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Record the objective and prune if ``stop`` returns true."""
        if trainer.sanity_checking:
            return
        self.values.append(float(trainer.callback_metrics[OBJECTIVE]))
        done = trainer.global_step / trainer.estimated_stepping_batches
        if self.stop(len(self.values), self.values[-1], done):
            raise PrunedError
