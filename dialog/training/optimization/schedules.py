"""Learning-rate schedules, as a recipe names them: what the optimizer's ``lr`` is multiplied by at each step.

All but ``plateau`` are functions of i = 0, 1, ..., the optimizer steps made so far. Their warm-up makes the rate
``lr (i + 1) / warmup_steps`` as long as that is below lr. N is the number of steps that training has, which the trainer
knows, or ``steps`` where that is given; from then on the rate is the last.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, ReduceLROnPlateau

from dialog.config.components import Family

Scheduler = LRScheduler | ReduceLROnPlateau


def constant(optimizer: Optimizer, *, warmup_steps: int = 0) -> LRScheduler:
    """lr, after the warm-up."""
    _refuse_negative("warmup_steps", warmup_steps)
    return LambdaLR(optimizer, lambda step: warm(step, warmup_steps))


def inverse_sqrt(optimizer: Optimizer, *, warmup_steps: int = 1000) -> LRScheduler:
    """Lr x min(n / warm-up, sqrt(warm-up / n)) at step n = i + 1; Vaswani et al. 2017, 5.3, with its peak at lr."""
    if warmup_steps < 1:
        raise ValueError("warmup_steps must be at least 1")
    return LambdaLR(optimizer, lambda step: min((step + 1) / warmup_steps, (warmup_steps / (step + 1)) ** 0.5))


def linear(
    optimizer: Optimizer,
    *,
    warmup_steps: int = 0,
    minimum: float = 0.0,
    steps: int | None = None,
    training_steps: Callable[[], float] | None = None,
) -> LRScheduler:
    """Lr x (1 - p (1 - minimum)) with p = (i - warm-up) / (N - warm-up): down to a share of lr."""
    return _falling(optimizer, lambda progress: 1 - progress, warmup_steps, minimum, length(steps, training_steps))


def cosine(
    optimizer: Optimizer,
    *,
    warmup_steps: int = 0,
    minimum: float = 0.0,
    steps: int | None = None,
    training_steps: Callable[[], float] | None = None,
) -> LRScheduler:
    """Lr x (minimum + (1 - minimum) (1 + cos(pi p)) / 2) with p as in linear; Loshchilov & Hutter 2017, once."""
    return _falling(optimizer, half_wave, warmup_steps, minimum, length(steps, training_steps))


def one_cycle(
    optimizer: Optimizer,
    *,
    rise: float = 0.3,
    start: float = 0.04,
    end: float = 4e-6,
    steps: int | None = None,
    training_steps: Callable[[], float] | None = None,
) -> LRScheduler:
    """Half a cosine wave from lr x start up to lr in the first ``rise`` of N, another down to lr x end.

    Smith & Topin 2018. The optimizer's momentum stays as it is.
    """
    if not 0 < rise < 1:
        raise ValueError(f"rise must be above 0 and below 1, not {rise}")
    _refuse_no_share("start", start)
    _refuse_no_share("end", end)
    last = length(steps, training_steps) - 1
    top = max(rise * (last + 1) - 1, 0.0)

    def factor(step: int) -> float:
        if step < top:
            return 1 + (start - 1) * half_wave(step / top)
        return end + (1 - end) * half_wave(min((step - top) / max(last - top, 1e-9), 1.0))

    return LambdaLR(optimizer, factor)


def plateau(optimizer: Optimizer, *, factor: float = 0.5, patience: int = 1) -> ReduceLROnPlateau:
    """Lr x factor after more than ``patience`` validations without a lower validation loss."""
    return ReduceLROnPlateau(optimizer, factor=factor, patience=patience)


SCHEDULES: Family[Scheduler] = Family(
    "schedule",
    {
        "constant": constant,
        "inverse_sqrt": inverse_sqrt,
        "linear": linear,
        "cosine": cosine,
        "one_cycle": one_cycle,
        "plateau": plateau,
    },
    runtime=("optimizer", "training_steps"),
)


def warm(step: int, warmup_steps: int) -> float:
    """How much of lr there is while it warms up."""
    return min((step + 1) / warmup_steps, 1.0) if warmup_steps else 1.0


def half_wave(progress: float) -> float:
    """From 1 down to 0 along a cosine."""
    return (1 + math.cos(math.pi * progress)) / 2


def length(steps: int | None, training_steps: Callable[[], float] | None) -> float:
    """N: what is given, else what the trainer says; where there is no trainer yet, no end is in sight.

    Raises:
        ValueError: there are no steps, or only the clock ends training.
    """
    if steps is not None and steps < 1:
        raise ValueError(f"steps must be at least 1, not {steps}")
    known = steps or (training_steps() if training_steps else None)
    if known == math.inf:
        raise ValueError("how many steps training has is not known; set steps, or trainer.max_steps or max_epochs")
    return math.inf if known is None else known


def _falling(
    optimizer: Optimizer, shape: Callable[[float], float], warmup_steps: int, minimum: float, last: float
) -> LRScheduler:
    """Warm-up, then from lr to lr x minimum as a shape goes from 1 to 0."""
    _refuse_negative("warmup_steps", warmup_steps)
    _refuse_no_share("minimum", minimum)

    def factor(step: int) -> float:
        if step < warmup_steps:
            return warm(step, warmup_steps)
        progress = min((step - warmup_steps) / max(last - warmup_steps, 1.0), 1.0)
        return minimum + (1 - minimum) * shape(progress)

    return LambdaLR(optimizer, factor)


def _refuse_negative(name: str, value: int) -> None:
    if value < 0:
        raise ValueError(f"{name} must be at least 0, not {value}")


def _refuse_no_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is a share of lr, in [0, 1], not {value}")
