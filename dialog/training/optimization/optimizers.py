"""Optimizers, as a recipe names them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import nn
from torch.distributed.tensor import DTensor
from torch.optim import SGD, Adafactor, Adam, AdamW, Optimizer

from dialog.config.components import Family

Groups = Sequence[dict[str, Any]]
"""Parameter groups as torch's optimizers take them."""

FUSED = ("cpu", "cuda", "mps", "xpu")
"""The devices on which torch updates all parameters in one kernel."""


def decay_groups(parameters: Iterable[tuple[str, nn.Parameter]]) -> Groups:
    """Named parameters that are trained, in two groups: weights decay as the optimizer says, norms and biases do not.

    A norm's parameters and a bias are what has one dimension or ``bias`` for its name; embeddings decay like any other
    matrix. A parameter that takes no gradient is in neither.
    """
    trained = [(name, parameter) for name, parameter in parameters if parameter.requires_grad]
    if not trained:
        raise ValueError("every parameter is frozen; leave one to train")
    still = {name for name, parameter in trained if parameter.dim() <= 1 or name.rpartition(".")[2] == "bias"}
    decaying = {"params": [parameter for name, parameter in trained if name not in still]}
    steady = {"params": [parameter for name, parameter in trained if name in still], "weight_decay": 0.0}
    return [group for group in (decaying, steady) if group["params"]]


def adamw(
    params: Groups,
    *,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.98),
    eps: float = 1e-9,
    weight_decay: float = 0.01,
) -> Optimizer:
    """AdamW (Loshchilov & Hutter 2019): Adam with a decay that does not pass through its second moments."""
    return AdamW(params, lr=lr, betas=_pair(betas), eps=eps, weight_decay=weight_decay, fused=fused(params))


def adam(
    params: Groups,
    *,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.98),
    eps: float = 1e-9,
    weight_decay: float = 0.0,
) -> Optimizer:
    """Adam (Kingma & Ba 2015), with the betas of Vaswani et al. 2017, 5.3; the decay is added to the gradient."""
    return Adam(params, lr=lr, betas=_pair(betas), eps=eps, weight_decay=weight_decay, fused=fused(params))


def sgd(
    params: Groups, *, lr: float = 0.1, momentum: float = 0.9, nesterov: bool = False, weight_decay: float = 0.0
) -> Optimizer:
    """Stochastic gradient descent; with momentum (Polyak 1964), or Nesterov's as Sutskever et al. 2013 write it."""
    one_kernel = fused(params) and not is_sharded(params)  # torch 2.13 has none for parts
    return SGD(params, lr=lr, momentum=momentum, nesterov=nesterov, weight_decay=weight_decay, fused=one_kernel)


def adafactor(
    params: Groups,
    *,
    lr: float = 1e-2,
    beta2_decay: float = -0.8,
    clip: float = 1.0,
    weight_decay: float = 0.0,
) -> Optimizer:
    """Adafactor (Shazeer & Stern 2018): second moments of a matrix as their row and column means, so little memory.

    A step is ``lr`` times the root mean square of the parameter (at least 1e-3) times an update whose own is at most
    ``clip``; the second moments' decay at step t is 1 - t^beta2_decay.

    Raises:
        ValueError: each process has a part of the matrices, of whose rows and columns it would take the means.
    """
    if is_sharded(params):
        raise ValueError("it takes means of whole matrices; with trainer.strategy=fsdp choose another")
    return Adafactor(params, lr=lr, beta2_decay=beta2_decay, d=clip, weight_decay=weight_decay)


OPTIMIZERS: Family[Optimizer] = Family(
    "optimizer", {"adamw": adamw, "adam": adam, "sgd": sgd, "adafactor": adafactor}, runtime=("params",)
)


def fused(groups: Groups) -> bool:
    """Whether torch has one kernel for all parameters where they are."""
    return all(
        parameter.device.type in FUSED and parameter.is_floating_point()
        for group in groups
        for parameter in group["params"]
    )


def is_sharded(groups: Groups) -> bool:
    """Whether parameters are shared out among processes."""
    return any(isinstance(parameter, DTensor) for group in groups for parameter in group["params"])


def _pair(betas: Sequence[float]) -> tuple[float, float]:
    """Two numbers, which YAML has as a list."""
    first, second = betas
    return first, second
