"""Gather and sum over all ranks; with one process, no communication."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from dialog.ranks import rank, world_size


def gather_to_first(value: Any) -> list[Any]:
    """Return the values of all ranks in rank order on the first rank, an empty list on the
    others.
    """
    if world_size() == 1:
        return [value]
    values: list[Any] | None = [None] * world_size() if rank() == 0 else None
    dist.gather_object(value, values)
    return values or []


def sum_over_ranks(values: Tensor) -> Tensor:
    """Return the elementwise sum over all ranks."""
    if world_size() == 1:
        return values
    total = values.clone()
    dist.all_reduce(total)
    return total


def mean_over_ranks(count: int, like: Tensor) -> float | Tensor:
    """Return the mean of a count over all ranks, in the dtype of ``like``: the divisor of each
    rank's own sum.

    DDP averages gradients over ranks, so with sums s_r over n_r tokens, mean_r(s_r / mean(n)) = sum
    s / sum n; the mean of s_r / n_r would differ.
    """
    if world_size() == 1:
        return count
    total = sum_over_ranks(torch.full((), count, dtype=torch.float64, device=like.device))
    return (total / world_size()).to(like.dtype)
