"""Learning-rate schedules: the factor of the optimizer's ``lr`` at each step.

All but ``plateau`` are functions of i = 0, 1, ..., the number of optimizer steps so far. During
warm-up the rate is ``lr (i + 1) / warmup_steps``. N is the number of training steps: ``steps`` if
given, else the trainer's; afterwards the rate stays constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, ReduceLROnPlateau

from dialog.config.components import Family

Scheduler = LRScheduler | ReduceLROnPlateau


def constant(optimizer: Optimizer, *, warmup_steps: int = 0) -> LRScheduler:
    """lr, after warm-up."""
    _check_not_negative("warmup_steps", warmup_steps)
    return LambdaLR(optimizer, lambda step: warm(step, warmup_steps))


def inverse_sqrt(
    optimizer: Optimizer, *, warmup_steps: int = 1000, start: float | None = None
) -> LRScheduler:
    """Lr x min(n / warm-up, sqrt(warm-up / n)) at step n = i + 1; Vaswani et al. 2017, 5.3, with
    its peak at lr.

    With ``start``, as in ParlAI: from lr x start at step i = 0 linearly to lr at i = warm-up, then
    lr x sqrt(warm-up / i).
    """
    if warmup_steps < 1:
        raise ValueError("warmup_steps must be at least 1")
    if start is None:
        return LambdaLR(
            optimizer,
            lambda step: min((step + 1) / warmup_steps, (warmup_steps / (step + 1)) ** 0.5),
        )
    _check_fraction("start", start)

    def factor(step: int) -> float:
        rising = start + (1 - start) * step / warmup_steps
        return rising if step <= warmup_steps else (warmup_steps / step) ** 0.5

    return LambdaLR(optimizer, factor)


def linear(
    optimizer: Optimizer,
    *,
    warmup_steps: int = 0,
    minimum: float = 0.0,
    steps: int | None = None,
    training_steps: Callable[[], float] | None = None,
) -> LRScheduler:
    """Lr x (1 - p (1 - minimum)) with p = (i - warm-up) / (N - warm-up): falls to lr x minimum."""
    return _falling(
        optimizer,
        lambda progress: 1 - progress,
        warmup_steps,
        minimum,
        length(steps, training_steps),
    )


def cosine(
    optimizer: Optimizer,
    *,
    warmup_steps: int = 0,
    minimum: float = 0.0,
    steps: int | None = None,
    training_steps: Callable[[], float] | None = None,
) -> LRScheduler:
    """Lr x (minimum + (1 - minimum) (1 + cos(pi p)) / 2) with p as in linear; Loshchilov & Hutter
    2017, no restarts.
    """
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
    """Rise along half a cosine from lr x start to lr in the first ``rise`` of N steps, then fall
    along one to lr x end.

    Smith & Topin 2018, with constant momentum.
    """
    if not 0 < rise < 1:
        raise ValueError(f"rise must be above 0 and below 1, not {rise}")
    _check_fraction("start", start)
    _check_fraction("end", end)
    last = length(steps, training_steps) - 1
    peak = max(rise * (last + 1) - 1, 0.0)

    def factor(step: int) -> float:
        if step < peak:
            return 1 + (start - 1) * half_wave(step / peak)
        return end + (1 - end) * half_wave(min((step - peak) / max(last - peak, 1e-9), 1.0))

    return LambdaLR(optimizer, factor)


def plateau(optimizer: Optimizer, *, factor: float = 0.5, patience: int = 1) -> ReduceLROnPlateau:
    """Lr x factor after more than ``patience`` validations whose loss is not 0.01 % below the
    lowest before them.
    """
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


def set_base(scheduler: Scheduler, lr: float) -> None:
    """Change the lr that a schedule multiplies, from its present step on."""
    if isinstance(scheduler, LambdaLR):
        scheduler.base_lrs = [lr] * len(scheduler.base_lrs)
        scheduler._last_lr = [lr * factor(scheduler.last_epoch) for factor in scheduler.lr_lambdas]


def use_scheduled(scheduler: Scheduler) -> None:
    """Set the optimizer's rates to those of the schedule's present step."""
    if isinstance(scheduler, LambdaLR):
        for group, lr in zip(
            scheduler.optimizer.param_groups, scheduler.get_last_lr(), strict=True
        ):
            group["lr"] = lr


def warm(step: int, warmup_steps: int) -> float:
    """Return the factor of lr during and after warm-up."""
    return min((step + 1) / warmup_steps, 1.0) if warmup_steps else 1.0


def half_wave(progress: float) -> float:
    """Fall from 1 to 0 along half a cosine for progress from 0 to 1."""
    return (1 + math.cos(math.pi * progress)) / 2


def length(steps: int | None, training_steps: Callable[[], float] | None) -> float:
    """Return N: ``steps``, else the trainer's number of steps; infinity without a trainer.

    Raises:
        ValueError: N < 1, or only max_time ends training, so that N is unknown.
    """
    if steps is not None:
        if steps < 1:
            raise ValueError(f"steps must be at least 1, not {steps}")
        return steps
    total = training_steps() if training_steps else None
    if total == math.inf:
        raise ValueError(
            "the number of training steps is unknown; set steps, or trainer.max_steps or max_epochs"
        )
    return math.inf if total is None else total


def _falling(
    optimizer: Optimizer,
    shape: Callable[[float], float],
    warmup_steps: int,
    minimum: float,
    last: float,
) -> LRScheduler:
    """Warm up, then fall from lr to lr x minimum as ``shape`` falls from 1 to 0."""
    _check_not_negative("warmup_steps", warmup_steps)
    _check_fraction("minimum", minimum)

    def factor(step: int) -> float:
        if step < warmup_steps:
            return warm(step, warmup_steps)
        progress = min((step - warmup_steps) / max(last - warmup_steps, 1.0), 1.0)
        return minimum + (1 - minimum) * shape(progress)

    return LambdaLR(optimizer, factor)


def _check_not_negative(name: str, value: int) -> None:
    if value < 0:
        raise ValueError(f"{name} must be at least 0, not {value}")


def _check_fraction(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is a fraction of lr, in [0, 1], not {value}")
