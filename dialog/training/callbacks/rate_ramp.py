"""Learning-rate range test: the rate rises at every step, and each loss is recorded."""

from __future__ import annotations

from typing import NamedTuple

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback

from dialog.report.progress import ProgressBars

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
