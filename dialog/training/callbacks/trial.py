"""Callbacks of tuning: the watch of a sweep's trial, and the learning-rate range test."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback

from dialog.report.progress import ProgressBars
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


RISEN = 4
"""Multiple of the lowest loss at which a range test ends."""


class RangeTest(NamedTuple):
    """The loss of each step, before the update at its learning rate."""

    rates: list[float]
    losses: list[float]


class RateRamp(Callback):
    """Raises the learning rate exponentially from ``lowest`` to ``highest`` over ``steps`` steps,
    in place of the schedule, until the loss has risen fourfold (Smith 2017, 3.3).

    Losses are those that a step minimises; the module must log every step.
    """

    def __init__(self, lowest: float, highest: float, steps: int, bars: ProgressBars) -> None:
        growth = (highest / lowest) ** (1 / (steps - 1))
        self.rates = [lowest * growth**step for step in range(steps)]
        self.losses: list[float] = []
        self.bars = bars

    def on_train_batch_start(
        self, trainer: Trainer, module: LightningModule, batch: object, batch_index: int
    ) -> None:
        """Set the rate of the coming step; the schedule has just set its own."""
        for optimizer in trainer.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self.rates[trainer.global_step]

    def on_train_batch_end(
        self,
        trainer: Trainer,
        module: LightningModule,
        outputs: object,
        batch: object,
        batch_index: int,
    ) -> None:
        """Record the loss after the last micro-batch of a step."""
        if trainer.global_step == len(self.losses):
            return
        self.losses.append(float(trainer.callback_metrics["train/objective"]))
        self.bars.show("trying learning rates", len(self.losses), len(self.rates))
        if self.losses[-1] > RISEN * min(self.losses):
            trainer.should_stop = True
