"""Averages of the weights, which are validated and saved; training continues with the weights
themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.strategies import (
    DeepSpeedStrategy,
    FSDPStrategy,
    ModelParallelStrategy,
    Strategy,
)
from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn

from dialog.config.components import Component, Family, build
from dialog.errors import UserError

Weights = Mapping[str, Tensor]
"""Trained parameters by name."""


class Average(Protocol):
    """Average of weights over time, in float32 or wider."""

    def start(self, weights: Weights, state: Mapping[str, Any]) -> None:
        """Start from the weights before the first step, or from a saved state."""

    def step(self, weights: Weights) -> None:
        """Update with the weights after an optimizer step."""

    def validation(self, weights: Weights, step: int) -> None:
        """Update with the weights at a validation after ``step`` steps."""

    def mean(self) -> Weights | None:
        """Return the average, or None before the first update."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state as tensors and plain types."""


class Exponential:
    """Moving average: m <- d m + (1 - d) w at step n; d = decay, or min(decay, (1 + n) / (10 + n))
    with warm-up.
    """

    def __init__(self, *, decay: float = 0.999, warmup: bool = True) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"decay must be at least 0 and below 1, not {decay}")
        self.decay = decay
        self.warmup = warmup
        self.average: dict[str, Tensor] = {}
        self.steps = 0

    def start(self, weights: Weights, state: Mapping[str, Any]) -> None:
        """Start from the weights themselves, or from a saved average."""
        self.steps = state.get("steps", 0)
        average = state.get("average", weights)
        self.average = {
            name: float_copy(average[name]).to(weight.device) for name, weight in weights.items()
        }

    def step(self, weights: Weights) -> None:
        """Move the average towards the weights."""
        self.steps += 1
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps)) if self.warmup else self.decay
        average = list(self.average.values())
        new = [weights[name].to(mean.dtype) for name, mean in self.average.items()]
        get_ema_multi_avg_fn(decay)(average, new, self.steps)  # type: ignore[no-untyped-call]

    def validation(self, weights: Weights, step: int) -> None:
        """Do nothing."""

    def mean(self) -> Weights | None:
        """Return the average."""
        return self.average

    def state_dict(self) -> dict[str, Any]:
        """Return the average and its number of steps."""
        return {"steps": self.steps, "average": self.average}


class Last:
    """Mean of the weights at the last ``count`` validations, including the current one; keeps as
    many copies.
    """

    def __init__(self, *, count: int = 5) -> None:
        if count < 1:
            raise ValueError(f"count must be at least 1, not {count}")
        self.count = count
        self.window: dict[int, Weights] = {}

    def start(self, weights: Weights, state: Mapping[str, Any]) -> None:
        """Start without copies, or from those of a saved state."""
        window: Mapping[int, Weights] = state.get("window", {})
        self.window = {
            step: {name: value.to(weights[name].device) for name, value in copy.items()}
            for step, copy in window.items()
        }

    def step(self, weights: Weights) -> None:
        """Do nothing."""

    def validation(self, weights: Weights, step: int) -> None:
        """Copy the weights and drop the oldest copy."""
        self.window[step] = {name: float_copy(weight) for name, weight in weights.items()}
        self.window = {step: self.window[step] for step in sorted(self.window)[-self.count :]}

    def mean(self) -> Weights | None:
        """Return the mean of the copies."""
        window = list(self.window.values())
        return (
            {name: torch.stack([copy[name] for copy in window]).mean(0) for name in window[0]}
            if window
            else None
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the copies by step."""
        return {"window": self.window}


AVERAGES: Family[Average] = Family("average", {"ema": Exponential, "last": Last})


class Averaging(Callback):
    """Validates an average of the weights and saves it; checkpoints contain the weights themselves
    as well.

    ``state_dict`` of best.ckpt and last.ckpt is the average, so best.ckpt and model.safetensors
    hold the validated weights. A resumed run continues to train the weights themselves. Frozen
    parameters are not averaged.
    """

    def __init__(self, average: Average) -> None:
        self.average = average
        self.steps: int | None = None
        self.state: Mapping[str, Any] = {}
        self.set_aside: dict[str, Tensor] | None = None
        """The weights while the module holds their average."""

    def setup(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        """Check that each process has all weights."""
        check_not_sharded(trainer.strategy)

    def on_load_checkpoint(
        self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Replace the average, which Lightning has just loaded, by the weights."""
        saved = checkpoint.get("averaging")
        if saved is not None:
            module.load_state_dict(saved["weights"], strict=False)
            self.state = saved["state"]

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Start the average, from a loaded state if there is one."""
        self.average.start(trained(module), self.state)
        self.steps = trainer.global_step
        self.state = {}

    def on_train_batch_end(
        self,
        trainer: Trainer,
        module: LightningModule,
        outputs: object,
        batch: object,
        batch_index: int,
    ) -> None:
        """Update the average after an optimizer step."""
        if trainer.global_step != self.steps:
            self.steps = trainer.global_step
            self.average.step(trained(module))

    def on_validation_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Replace the weights by their average."""
        if self.steps is None or trainer.state.fn != "fit":
            return
        weights = trained(module)
        self.average.validation(weights, trainer.global_step)
        self.set_aside = {name: weight.clone() for name, weight in weights.items()}
        for name, value in (self.average.mean() or {}).items():
            weights[name].copy_(value)

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Restore the weights."""
        if self.set_aside is not None:
            for name, weight in trained(module).items():
                weight.copy_(self.set_aside[name])
            self.set_aside = None

    def on_save_checkpoint(
        self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Save the average as ``state_dict``, under all names of tied parameters, and the weights
        beside it.
        """
        if self.steps is None:
            return
        weights = self.set_aside or trained(module)
        checkpoint["averaging"] = {"weights": dict(weights), "state": self.average.state_dict()}
        mean = self.average.mean() or weights
        first = {id(parameter): name for name, parameter in module.named_parameters()}
        for name, parameter in module.named_parameters(remove_duplicate=False):
            if first[id(parameter)] in mean:
                checkpoint["state_dict"][name] = mean[first[id(parameter)]]


def build_averaging(component: Component) -> Callback:
    """Build the callback of ``checkpoint.averaging``."""
    return Averaging(build(AVERAGES, component))


def check_not_sharded(strategy: Strategy) -> None:
    """Raise UserError for a strategy that shards the weights: an average needs all of them in each
    process.
    """
    if isinstance(strategy, FSDPStrategy | ModelParallelStrategy | DeepSpeedStrategy):
        raise UserError(
            "checkpoint.averaging needs all weights in each process; remove it or set"
            " trainer.strategy=ddp"
        )


def trained(module: LightningModule) -> dict[str, Tensor]:
    """Return the trained parameters, each under its first name."""
    return {name: one.detach() for name, one in module.named_parameters() if one.requires_grad}


def float_copy(weight: Tensor) -> Tensor:
    """Copy a weight in float32 or wider; updates of an average are too small for less."""
    return weight.detach().to(torch.promote_types(weight.dtype, torch.float32), copy=True)
