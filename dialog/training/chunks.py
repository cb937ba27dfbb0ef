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
        gradients = [torch.zeros_like(each) if needed else None for each, needed in zip(given, wanted, strict=True)]
        found = []
        for start in range(0, len(given[0]), CHUNK):
            here = slice(start, start + CHUNK)
            rows = [each[here].detach() for each in given[:count]]
            for row, needed in zip(rows, wanted[:count], strict=True):
                row.requires_grad_(needed)
            with torch.enable_grad():
                sums = function(*rows)
            found.append(tuple(each.detach() for each in sums))
            places = [None if each is None else each[here] for each in gradients[:count]] + gradients[count:]
            _add_slopes(sums[0], [*rows, *given[count:]], places)
        ctx.save_for_backward(*gradients)
        results = total(found)
        ctx.mark_non_differentiable(*results[1:])
        return results

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor, *others: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's
        """The gradients that are ready, times the incoming one."""
        return None, None, *(None if each is None else each * slope for each in ctx.saved_tensors)


def _add_slopes(objective: Tensor, inputs: Sequence[Tensor], places: Sequence[Tensor | None]) -> None:
    """Add the objective's gradient by each input to its place, where it has one."""
    asked = [(each, place) for each, place in zip(inputs, places, strict=True) if place is not None]
    if asked:
        slopes = torch.autograd.grad(objective, [each for each, _ in asked], allow_unused=True)
        for (_, place), slope in zip(asked, slopes, strict=True):
            if slope is not None:
                place.add_(slope)
