"""Averages of the weights, which are what is validated and kept, while training goes on with the weights themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.strategies import DeepSpeedStrategy, FSDPStrategy, ModelParallelStrategy, Strategy
from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn

from dialog.config.components import Component, Family, build
from dialog.errors import UserError

Weights = Mapping[str, Tensor]
"""The parameters that are trained, by their names."""


class Average(Protocol):
    """What is remembered of the weights, in float32 at least, and their average."""

    def start(self, weights: Weights, state: Mapping[str, Any]) -> None:
        """Begin with the weights before the first step, or go on with a state."""

    def step(self, weights: Weights) -> None:
        """See the weights after an optimizer step."""

    def validation(self, weights: Weights, step: int) -> None:
        """See the weights that would be validated after so many steps."""

    def mean(self) -> Weights | None:
        """The average, if there is one yet."""

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain types."""


class Exponential:
    """Of all steps: m <- d m + (1 - d) w, with d = min(decay, (1 + n) / (10 + n)) at step n while it warms up."""

    def __init__(self, *, decay: float = 0.999, warmup: bool = True) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"decay must be at least 0 and below 1, not {decay}")
        self.decay, self.warmup = decay, warmup
        self.average: dict[str, Tensor] = {}
        self.steps = 0

    def start(self, weights: Weights, state: Mapping[str, Any]) -> None:
        """The average of one."""
        self.steps = state.get("steps", 0)
        known = state.get("average", weights)
        self.average = {name: kept(known[name]).to(weight.device) for name, weight in weights.items()}

    def step(self, weights: Weights) -> None:
        """Move towards the weights."""
        self.steps += 1
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps)) if self.warmup else self.decay
        average = list(self.average.values())
        new = [weights[name].to(each.dtype) for name, each in self.average.items()]
        get_ema_multi_avg_fn(decay)(average, new, self.steps)  # type: ignore[no-untyped-call]

    def validation(self, weights: Weights, step: int) -> None:
        """Nothing new."""

    def mean(self) -> Weights | None:
        """The average."""
        return self.average

    def state_dict(self) -> dict[str, Any]:
        """The average and its steps."""
        return {"steps": self.steps, "average": self.average}


class Last:
    """Of the last ``count`` validations, this one among them: so many copies of the weights are kept."""

    def __init__(self, *, count: int = 5) -> None:
        if count < 1:
            raise ValueError(f"count must be at least 1, not {count}")
        self.count = count
        self.window: dict[int, Weights] = {}

    def start(self, weights: Weights, state: Mapping[str, Any]) -> None:
        """No validation yet, or those of a state."""
        window: Mapping[int, Weights] = state.get("window", {})
        self.window = {
            step: {name: each.to(weights[name].device) for name, each in known.items()}
            for step, known in window.items()
        }

    def step(self, weights: Weights) -> None:
        """Nothing new."""

    def validation(self, weights: Weights, step: int) -> None:
        """Keep these and drop the oldest."""
        self.window[step] = {name: kept(weight) for name, weight in weights.items()}
        self.window = {step: self.window[step] for step in sorted(self.window)[-self.count :]}

    def mean(self) -> Weights | None:
        """Their mean."""
        window = list(self.window.values())
        return {name: torch.stack([each[name] for each in window]).mean(0) for name in window[0]} if window else None

    def state_dict(self) -> dict[str, Any]:
        """The copies by their steps."""
        return {"window": self.window}


AVERAGES: Family[Average] = Family("average", {"ema": Exponential, "last": Last})


class Averaging(Callback):
    """Validates an average of the weights and writes it into checkpoints, where the weights themselves stand beside it.

    So ``state_dict`` of best.ckpt and last.ckpt is the average, best.ckpt and model.safetensors hold what was
    validated, and a run that is gone on with trains the weights that it had. What is frozen is not averaged.
    """

    def __init__(self, average: Average) -> None:
        self.average = average
        self.steps: int | None = None
        self.state: Mapping[str, Any] = {}
        self.set_aside: dict[str, Tensor] | None = None
        """The weights, while their average is in their place."""

    def setup(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        """Refuse what keeps only a part of each weight."""
        refuse_shards(trainer.strategy)

    def on_load_checkpoint(self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Put the weights in the place of their average, which Lightning has just loaded."""
        saved = checkpoint.get("averaging")
        if saved is not None:
            module.load_state_dict(saved["weights"], strict=False)
            self.state = saved["state"]

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Begin, or go on."""
        self.average.start(trained(module), self.state)
        self.steps, self.state = trainer.global_step, {}

    def on_train_batch_end(
        self, trainer: Trainer, module: LightningModule, outputs: object, batch: object, batch_index: int
    ) -> None:
        """See what an optimizer step has made."""
        if trainer.global_step != self.steps:
            self.steps = trainer.global_step
            self.average.step(trained(module))

    def on_validation_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Put the average in the place of the weights."""
        if self.steps is None or trainer.state.fn != "fit":
            return
        weights = trained(module)
        self.average.validation(weights, trainer.global_step)
        self.set_aside = {name: weight.clone() for name, weight in weights.items()}
        for name, value in (self.average.mean() or {}).items():
            weights[name].copy_(value)

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Put the weights back."""
        if self.set_aside is not None:
            for name, weight in trained(module).items():
                weight.copy_(self.set_aside[name])
            self.set_aside = None

    def on_save_checkpoint(self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """The average in the place of the weights, under all of their names, and the weights beside it."""
        if self.steps is None:
            return
        weights = self.set_aside or trained(module)
        checkpoint["averaging"] = {"weights": dict(weights), "state": self.average.state_dict()}
        mean = self.average.mean() or weights
        first = {id(parameter): name for name, parameter in module.named_parameters()}
        for name, parameter in module.named_parameters(remove_duplicate=False):
            if first[id(parameter)] in mean:
                checkpoint["state_dict"][name] = mean[first[id(parameter)]]


def averaging(component: Component | None) -> list[Callback]:
    """The callback of a recipe's ``checkpoint.averaging``, where there is one."""
    return [] if component is None else [Averaging(build(AVERAGES, component))]


def refuse_shards(strategy: Strategy) -> None:
    """An average is of whole weights.

    Raises:
        UserError: a strategy that gives each process a part of them.
    """
    if isinstance(strategy, FSDPStrategy | ModelParallelStrategy | DeepSpeedStrategy):
        raise UserError("checkpoint.averaging needs all weights in each process; take it out, or trainer.strategy=ddp")


def trained(module: LightningModule) -> dict[str, Tensor]:
    """The parameters that are trained, each under its first name."""
    return {name: each.detach() for name, each in module.named_parameters() if each.requires_grad}


def kept(weight: Tensor) -> Tensor:
    """A copy in float32 at least: what is added to an average is too small for less."""
    return weight.detach().to(torch.promote_types(weight.dtype, torch.float32), copy=True)
