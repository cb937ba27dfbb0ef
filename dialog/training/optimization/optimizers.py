"""The optimizers that a recipe can name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import nn
from torch.distributed.tensor import DTensor
from torch.optim import SGD, Adafactor, Adam, AdamW, Optimizer

from dialog.config.components import Family

Groups = Sequence[dict[str, Any]]
"""Parameter groups of torch's optimizers."""

FUSED = ("cpu", "cuda", "mps", "xpu")
"""Devices with fused optimizers, which update all parameters in one kernel."""


def decay_groups(parameters: Iterable[tuple[str, nn.Parameter]]) -> Groups:
    """Split the trainable parameters into two groups: with the optimizer's weight decay, and
    without (norms, biases).

    Parameters of one dimension, or named ``bias``, do not decay; embeddings decay like any other
    matrix.

    Raises:
        ValueError: every parameter is frozen.
    """
    trained = [(name, parameter) for name, parameter in parameters if parameter.requires_grad]
    if not trained:
        raise ValueError("every parameter is frozen; unfreeze at least one")
    undecayed = {
        name
        for name, parameter in trained
        if parameter.dim() <= 1 or name.rpartition(".")[2] == "bias"
    }
    decayed = {"params": [parameter for name, parameter in trained if name not in undecayed]}
    plain = {
        "params": [parameter for name, parameter in trained if name in undecayed],
        "weight_decay": 0.0,
    }
    return [group for group in (decayed, plain) if group["params"]]


def adamw(
    params: Groups,
    *,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.98),
    eps: float = 1e-9,
    weight_decay: float = 0.01,
) -> Optimizer:
    """AdamW (Loshchilov & Hutter 2019): Adam with decoupled weight decay."""
    return AdamW(
        params, lr=lr, betas=_pair(betas), eps=eps, weight_decay=weight_decay, fused=fused(params)
    )


def adam(
    params: Groups,
    *,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.98),
    eps: float = 1e-9,
    weight_decay: float = 0.0,
    amsgrad: bool = False,
) -> Optimizer:
    """Adam (Kingma & Ba 2015), with the betas of Vaswani et al. 2017, 5.3; weight decay is added to
    the gradient.

    ``amsgrad`` divides by the largest second moment so far (Reddi et al. 2018).
    """
    return Adam(
        params,
        lr=lr,
        betas=_pair(betas),
        eps=eps,
        weight_decay=weight_decay,
        amsgrad=amsgrad,
        fused=fused(params),
    )


def sgd(
    params: Groups,
    *,
    lr: float = 0.1,
    momentum: float = 0.9,
    nesterov: bool = False,
    weight_decay: float = 0.0,
) -> Optimizer:
    """Stochastic gradient descent with momentum (Polyak 1964), or Nesterov's (as in Sutskever
    et al. 2013).
    """
    one_kernel = fused(params) and not is_sharded(params)  # torch 2.13 has no fused SGD for shards
    return SGD(
        params,
        lr=lr,
        momentum=momentum,
        nesterov=nesterov,
        weight_decay=weight_decay,
        fused=one_kernel,
    )


def adafactor(
    params: Groups,
    *,
    lr: float = 1e-2,
    beta2_decay: float = -0.8,
    clip: float = 1.0,
    weight_decay: float = 0.0,
) -> Optimizer:
    """Adafactor (Shazeer & Stern 2018): stores only row and column means of a matrix's second
    moments.

    A step is ``lr`` times the root mean square of the parameter (at least 1e-3) times an update
    whose root mean square is at most ``clip``; the second moments' decay at step t is 1 -
    t^beta2_decay.

    Raises:
        ValueError: the parameters are sharded; the row and column means need whole matrices.
    """
    if is_sharded(params):
        raise ValueError(
            "needs unsharded parameters; with trainer.strategy=fsdp choose another optimizer"
        )
    return Adafactor(params, lr=lr, beta2_decay=beta2_decay, d=clip, weight_decay=weight_decay)


OPTIMIZERS: Family[Optimizer] = Family(
    "optimizer",
    {"adamw": adamw, "adam": adam, "sgd": sgd, "adafactor": adafactor},
    runtime=("params",),
)


def fused(groups: Groups) -> bool:
    """Return whether torch has a fused kernel for all parameters on their devices."""
    return all(
        parameter.device.type in FUSED and parameter.is_floating_point()
        for group in groups
        for parameter in group["params"]
    )


def is_sharded(groups: Groups) -> bool:
    """Return whether any parameter is sharded across ranks."""
    return any(isinstance(parameter, DTensor) for group in groups for parameter in group["params"])


def _pair(betas: Sequence[float]) -> tuple[float, float]:
    first, second = betas
    return first, second
