"""Optimizers and learning-rate schedules, as a recipe names them."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, ReduceLROnPlateau


def adamw(
    parameters: Iterable[nn.Parameter],
    *,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.98),
    eps: float = 1e-9,
    weight_decay: float = 0.01,
) -> Optimizer:
    """AdamW (Loshchilov & Hutter 2019) in its fused form; biases and norms do not decay."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    groups = [
        {"params": [parameter for parameter in trained if parameter.dim() > 1], "weight_decay": weight_decay},
        {"params": [parameter for parameter in trained if parameter.dim() <= 1], "weight_decay": 0.0},
    ]
    return AdamW(groups, lr=lr, betas=(betas[0], betas[1]), eps=eps, fused=True)


OPTIMIZERS = {"adamw": adamw}


def constant(optimizer: Optimizer) -> LRScheduler:
    """The learning rate as it is."""
    return LambdaLR(optimizer, lambda step: 1.0)


def inverse_sqrt(optimizer: Optimizer, *, warmup_steps: int = 1000) -> LRScheduler:
    """Lr x min(n / warm-up, sqrt(warm-up / n)) at step n = 1, 2, ...; Vaswani et al. 2017, 5.3, with its peak at lr."""
    if warmup_steps < 1:
        raise ValueError("warmup_steps must be at least 1")
    return LambdaLR(optimizer, lambda step: min((step + 1) / warmup_steps, (warmup_steps / (step + 1)) ** 0.5))


def plateau(optimizer: Optimizer, *, factor: float = 0.5, patience: int = 1) -> ReduceLROnPlateau:
    """Lr x factor after more than ``patience`` validations without a lower validation loss."""
    return ReduceLROnPlateau(optimizer, factor=factor, patience=patience)


SCHEDULES = {"constant": constant, "inverse_sqrt": inverse_sqrt, "plateau": plateau}
