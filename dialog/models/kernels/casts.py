"""The weights of all `Linear` layers cast at once for a step under autocast, not one by one.

Formula: autocast's own cast of each weight before its first product; results and gradients are
equal bit for bit. Gain: a training step of a Transformer of DailyDialog's size launches 258 kernels
less on a GPU (tests/laws/test_launches.py); on a CPU the time is the same.

Test: ``test_casts_are_those_of_autocast`` in tests/training/optimization/test_casts.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from dialog.models.kernels.autocast import autocast_type
from dialog.models.kernels.linear import Linear
from dialog.models.kernels.private_operators import copy_tensors

GROUP = 2**23
"""Numbers from which weights begin a new group. A group's gradients are ready together, after the
last of them: distributed ranks exchange the others' meanwhile.
"""


@contextmanager
def cast_linear(model: nn.Module) -> Iterator[None]:
    """Replace the weights and biases of all `Linear` layers by their casts within the block, if
    autocast is enabled on their device.

    Weights that are not plain parameters in float32, such as those of FSDP, are left to autocast.
    """
    places = list(_places(model))
    dtype = autocast_type(places[0][2]) if places else None
    if dtype is None:
        yield
        return
    weights = list({id(weight): weight for _, _, weight in places}.values())
    casts = {
        id(weight): cast
        for group in _groups(weights)
        for weight, cast in zip(group, _Casts.apply(dtype, *group), strict=True)  # type: ignore[no-untyped-call]
    }
    try:
        for layer, name, weight in places:
            layer._parameters[name] = casts[id(weight)]
        yield
    finally:
        for layer, name, weight in places:
            layer._parameters[name] = weight


def _places(model: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Parameter]]:
    """Yield layer, name and value of the weights that are cast."""
    for layer in model.modules():
        for name, weight in layer.named_parameters(recurse=False):
            exact = type(weight) is nn.Parameter and weight.dtype is torch.float32
            if exact and isinstance(layer, Linear):
                yield layer, name, weight


def _groups(weights: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Split weights, in their order, into groups of about `GROUP` numbers."""
    group: list[nn.Parameter] = []
    for weight in weights:
        group.append(weight)
        if sum(each.numel() for each in group) >= GROUP:
            yield group
            group = []
    if group:
        yield group


class _Casts(torch.autograd.Function):
    """Casts of several weights; the gradients are cast back together too."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:
        """Return the casts of all weights; those of frozen ones need no gradient."""
        ctx.set_materialize_grads(False)
        casts = [torch.empty_like(weight, dtype=dtype) for weight in weights]
        copy_tensors(casts, weights)
        needed = zip(casts, ctx.needs_input_grad[1:], strict=True)
        ctx.mark_non_differentiable(*(cast for cast, needs in needed if not needs))
        return tuple(casts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return the gradients in float32; None for a weight that was not used."""
        present = [gradient for gradient in gradients if gradient is not None]
        exact = [torch.empty_like(gradient, dtype=torch.float32) for gradient in present]
        copy_tensors(exact, present)
        remaining = iter(exact)
        return None, *(None if each is None else next(remaining) for each in gradients)
