"""Schedules against their formulas, step by step, and with a Trainer's number of steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.optim import SGD
from torch.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR

import dialog
from dialog.config.components import build
from dialog.data.tokenizers.tokenizer import PAD
from dialog.errors import UserError
from dialog.models.seq2seq import Seq2Seq
from dialog.training.optimization.schedules import SCHEDULES

STEPS = st.integers(1, 60)


def optimizer(lr: float = 1.0) -> SGD:
    return SGD([nn.Parameter(torch.zeros(1))], lr=lr)


def rates(scheduler: Any, count: int) -> list[float]:
    """The learning rate of each step."""
    steps = []
    for _ in range(count):
        steps.append(scheduler.optimizer.param_groups[0]["lr"])
        scheduler.optimizer.step()
        scheduler.step()
    return steps


def schedule(name: str, count: int, lr: float = 1.0, **arguments: object) -> list[float]:
    return rates(build(SCHEDULES, {"name": name, **arguments}, optimizer=optimizer(lr)), count)


@settings(max_examples=40)
@given(STEPS, st.floats(0.01, 0.99))
def test_one_cycle_is_torchs(steps: int, rise: float) -> None:
    if rise * steps <= 1 + 1e-6 or rise * steps >= steps - 1e-6:
        return  # torch divides by the length of an empty phase
    reference = OneCycleLR(
        optimizer(), max_lr=1.0, total_steps=steps, pct_start=rise, cycle_momentum=False
    )
    assert schedule("one_cycle", steps, steps=steps, rise=rise) == pytest.approx(
        rates(reference, steps), abs=1e-9
    )


@settings(max_examples=40)
@given(STEPS)
def test_cosine_without_warm_up_is_torchs(steps: int) -> None:
    reference = CosineAnnealingLR(optimizer(), T_max=steps, eta_min=0.25)
    assert schedule("cosine", steps, steps=steps, minimum=0.25) == pytest.approx(
        rates(reference, steps), abs=1e-9
    )


@settings(max_examples=40)
@given(STEPS, st.integers(0, 70), st.floats(0, 1), st.sampled_from(["linear", "cosine"]))
def test_the_rate_warms_up_and_falls_to_its_minimum(
    steps: int, warmup: int, minimum: float, name: str
) -> None:
    computed = schedule(
        name, steps + warmup + 5, lr=2.0, steps=steps, warmup_steps=warmup, minimum=minimum
    )
    assert computed[:warmup] == pytest.approx([2.0 * (step + 1) / warmup for step in range(warmup)])
    falling = computed[warmup:]
    assert falling[0] == 2.0
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(falling))
    after = computed[max(steps, warmup + 1) :]
    assert after == pytest.approx([2.0 * minimum] * len(after))


def test_linear_is_a_line() -> None:
    assert schedule("linear", 6, steps=6, warmup_steps=2) == pytest.approx(
        [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    )


def test_constant_warms_up() -> None:
    assert schedule("constant", 4, warmup_steps=2) == [0.5, 1.0, 1.0, 1.0]
    assert schedule("constant", 2) == [1.0, 1.0]


@pytest.mark.parametrize("name", ["linear", "cosine", "one_cycle"])
def test_without_a_trainer_the_rate_never_falls_to_0(name: str) -> None:
    assert min(schedule(name, 50)) > 0


# ------------------------------------------------------------------ in a Trainer


class Rates(lightning.Callback):
    """Records the learning rate of each step."""

    def __init__(self) -> None:
        self.steps: list[float] = []

    def on_before_optimizer_step(
        self,
        trainer: lightning.Trainer,
        module: lightning.LightningModule,
        optimizer: torch.optim.Optimizer,
    ) -> None:
        self.steps.append(optimizer.param_groups[0]["lr"])


@pytest.fixture
def fit(network: Callable[..., Seq2Seq], prepared: Path) -> Callable[..., list[float]]:
    """``fit(schedule, **trainer)``: the learning rate of each step."""

    def run(name: str, **options: Any) -> list[float]:
        component = {"name": "sgd", "lr": 1.0, "schedule": {"name": name}}
        module = dialog.DialogModule(
            network(encoder="transformer", vocabulary=400), padding=PAD, optimizer=component
        )
        rates = Rates()
        quiet = dict.fromkeys(
            ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
        )
        trainer = lightning.Trainer(
            accelerator="cpu", devices=1, limit_val_batches=0, callbacks=[rates], **quiet, **options
        )
        trainer.fit(module.float(), dialog.DialogDataModule(prepared, batch_tokens=1200))
        return rates.steps

    return run


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"max_steps": 6}, 6),
        ({"max_epochs": 2, "limit_train_batches": 4}, 8),
        ({"max_epochs": 2, "limit_train_batches": 5, "accumulate_grad_batches": 2}, 6),
        ({"max_epochs": 3, "limit_train_batches": 4, "max_steps": 5}, 5),
    ],
)
def test_the_trainer_gives_the_number_of_steps(
    fit: Callable[..., list[float]], options: dict[str, Any], steps: int
) -> None:
    assert fit("linear", **options) == pytest.approx([1 - step / steps for step in range(steps)])


def test_an_unknown_number_of_steps_is_an_error(fit: Callable[..., list[float]]) -> None:
    with pytest.raises(
        UserError, match=r"^cosine: the number of training steps is unknown; set steps, or trainer"
    ):
        fit("cosine", max_epochs=-1, max_time="00:00:00:01")
    assert math.isclose(fit("cosine", max_epochs=-1, max_steps=2)[1], 0.5)


def test_inverse_square_root_from_a_start_by_hand() -> None:
    expected = [
        0.1,
        0.1 + 0.9 / 4,
        0.1 + 0.9 / 2,
        0.1 + 0.9 * 3 / 4,
        1.0,
        (4 / 5) ** 0.5,
        (4 / 6) ** 0.5,
    ]
    assert schedule("inverse_sqrt", 7, warmup_steps=4, start=0.1) == pytest.approx(
        expected, rel=1e-12
    )
    with pytest.raises(UserError, match="start is a fraction"):
        schedule("inverse_sqrt", 1, start=2.0)
