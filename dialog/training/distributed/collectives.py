"""The processes of a run, and what they tell each other; with one process nobody is asked."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from dialog.ranks import rank, world_size


def gathered(own: Any) -> list[Any]:  # noqa: ANN401 - of any type
    """In the first process what each has, in their order; in the others nothing."""
    if world_size() == 1:
        return [own]
    every: list[Any] | None = [None] * world_size() if rank() == 0 else None
    dist.gather_object(own, every)
    return every or []


def sum_over_ranks(values: Tensor) -> Tensor:
    """Values added up over all processes."""
    if world_size() == 1:
        return values
    total = values.clone()
    dist.all_reduce(total)
    return total


def mean_over_ranks(count: int, like: Tensor) -> float | Tensor:
    """The mean of a count over all processes, in the format of ``like``: what each divides its own sum by.

    So the mean of their gradients is right: with sums s_r over n_r tokens, mean_r(s_r / mean(n)) = sum s / sum n, which
    the mean of s_r / n_r is not.
    """
    if world_size() == 1:
        return count
    total = sum_over_ranks(torch.full((), count, dtype=torch.float64, device=like.device))
    return (total / world_size()).to(like.dtype)
