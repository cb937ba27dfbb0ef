"""Sums over many rows, computed a chunk at a time together with their gradients.

No intermediate tensor, such as [rows, vocabulary], exists for all rows at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK = 1024
"""Rows of a chunk."""

Sums = tuple[Tensor, ...]
"""Sums over rows; only the first has a gradient."""


def in_chunks(
    function: Callable[..., Sums], rows: Sequence[Tensor], parameters: Sequence[Tensor]
) -> Sums:
    """Return ``function(*rows)``, whose results are sums over rows and which may use the
    parameters.

    Up to ``CHUNK`` rows are computed at once. Above that, the gradient of the first sum is computed
    right after each chunk and its graph is freed; the backward pass multiplies this gradient by the
    incoming one.
    """
    if len(rows[0]) <= CHUNK:
        return function(*rows)
    if torch.is_grad_enabled():
        sums: Sums = _Chunked.apply(function, len(rows), *rows, *parameters)  # type: ignore[no-untyped-call]
        return sums
    return total([function(*chunk) for chunk in chunks(rows)])


def chunks(rows: Sequence[Tensor]) -> Iterator[tuple[Tensor, ...]]:
    """Split tensors of equal length into ``CHUNK`` rows at a time."""
    return zip(*(torch.split(tensor, CHUNK) for tensor in rows), strict=True)


def total(parts: Sequence[Sums]) -> Sums:
    """Add the sums of all parts."""
    return tuple(torch.stack(terms).sum(0) for terms in zip(*parts, strict=True))


class _Chunked(torch.autograd.Function):
    """The sums; the gradients are computed in the forward pass."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Sums], count: int, *tensors: Tensor) -> Sums:
        """Take ``count`` tensors of rows, then the parameters."""
        wanted: tuple[bool, ...] = ctx.needs_input_grad[2:]
        gradients: list[Tensor | None] = [None] * len(tensors)
        parts = []
        for start in range(0, len(tensors[0]), CHUNK):
            chunk = slice(start, start + CHUNK)
            inputs = [tensor[chunk].detach() for tensor in tensors[:count]] + list(tensors[count:])
            for tensor, needed in zip(inputs[:count], wanted[:count], strict=True):
                tensor.requires_grad_(needed)
            with torch.enable_grad():
                sums = function(*inputs[:count])
            parts.append(tuple(term.detach() for term in sums))
            for index, gradient in _gradients(sums[0], inputs, wanted):
                if (accumulated := gradients[index]) is None:
                    accumulated = gradients[index] = torch.zeros_like(tensors[index])
                (accumulated[chunk] if index < count else accumulated).add_(gradient)
        ctx.save_for_backward(*gradients)
        sums = total(parts)
        ctx.mark_non_differentiable(*sums[1:])
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, incoming: Tensor, *others: Tensor) -> tuple[Tensor | None, ...]:
        """Multiply the computed gradients by the incoming one."""
        return (
            None,
            None,
            *(None if saved is None else saved * incoming for saved in ctx.saved_tensors),
        )


def _gradients(
    objective: Tensor, inputs: Sequence[Tensor], wanted: Sequence[bool]
) -> Iterator[tuple[int, Tensor]]:
    """Yield index and gradient of each wanted input that the objective depends on."""
    indices = [index for index, needed in enumerate(wanted) if needed]
    if indices:
        gradients = torch.autograd.grad(
            objective, [inputs[index] for index in indices], allow_unused=True
        )
        pairs = zip(indices, gradients, strict=True)
        yield from ((index, gradient) for index, gradient in pairs if gradient is not None)
