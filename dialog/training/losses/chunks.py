"""Sums over many rows a chunk at a time, with their gradients, so that what lies between is never in memory whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK = 1024
"""Rows that are looked at together."""

Sums = tuple[Tensor, ...]
"""Sums over rows; where there are gradients, they are those of the first."""


def in_chunks(function: Callable[..., Sums], rows: Sequence[Tensor], parameters: Sequence[Tensor]) -> Sums:
    """``function(*rows)``, which adds up over rows and may use the parameters.

    Up to ``CHUNK`` rows are looked at whole. Of more, the gradient of the first sum is taken as soon as a chunk is
    done, and what lies between is let go; the backward pass multiplies it by the incoming gradient.
    """
    if len(rows[0]) <= CHUNK:
        return function(*rows)
    if torch.is_grad_enabled():
        result: Sums = _Chunked.apply(function, len(rows), *rows, *parameters)  # type: ignore[no-untyped-call]
        return result
    return total([function(*chunk) for chunk in chunks(rows)])


def chunks(rows: Sequence[Tensor]) -> Iterator[tuple[Tensor, ...]]:
    """Tensors of equal length, ``CHUNK`` rows at a time."""
    return zip(*(torch.split(each, CHUNK) for each in rows), strict=True)


def total(parts: Sequence[Sums]) -> Sums:
    """The sum of sums."""
    return tuple(torch.stack(each).sum(0) for each in zip(*parts, strict=True))


class _Chunked(torch.autograd.Function):
    """The sums, and the gradients that their backward pass will ask for."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Sums], count: int, *given: Tensor) -> Sums:  # noqa: ANN401 - torch's
        """So many tensors of rows, then parameters, to sums."""
        wanted: tuple[bool, ...] = ctx.needs_input_grad[2:]
        gradients: list[Tensor | None] = [None] * len(given)
        found = []
        for start in range(0, len(given[0]), CHUNK):
            here = slice(start, start + CHUNK)
            inputs = [each[here].detach() for each in given[:count]] + list(given[count:])
            for each, needed in zip(inputs[:count], wanted[:count], strict=True):
                each.requires_grad_(needed)
            with torch.enable_grad():
                sums = function(*inputs[:count])
            found.append(tuple(each.detach() for each in sums))
            for at, slope in _slopes(sums[0], inputs, wanted):
                whole = torch.zeros_like(given[at]) if (known := gradients[at]) is None else known
                (whole[here] if at < count else whole).add_(slope)
                gradients[at] = whole
        ctx.save_for_backward(*gradients)
        results = total(found)
        ctx.mark_non_differentiable(*results[1:])
        return results

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor, *others: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's
        """The gradients that are ready, times the incoming one."""
        return None, None, *(None if each is None else each * slope for each in ctx.saved_tensors)


def _slopes(objective: Tensor, inputs: Sequence[Tensor], wanted: Sequence[bool]) -> Iterator[tuple[int, Tensor]]:
    """The objective's gradient by those inputs that it depends on, and which they are."""
    asked = [at for at, needed in enumerate(wanted) if needed]
    if asked:
        slopes = torch.autograd.grad(objective, [inputs[at] for at in asked], allow_unused=True)
        yield from ((at, slope) for at, slope in zip(asked, slopes, strict=True) if slope is not None)
