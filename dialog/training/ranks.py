"""Numbers that all processes of a run share."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def mean_over_ranks(count: int | Tensor, like: Tensor) -> int | Tensor:
    """The mean of a count over all processes, in the format of ``like``: what each divides its own sum by.

    So the mean of their gradients is right: with sums s_r over n_r tokens, mean_r(s_r / mean(n)) = sum s / sum n, which
    the mean of s_r / n_r is not.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return count
    total = torch.as_tensor(count, dtype=torch.float64, device=like.device).clone()
    dist.all_reduce(total)
    return (total / dist.get_world_size()).to(like.dtype)
