"""Coverage loss.

Shapes: B rows, T target tokens, S source tokens.
"""

from __future__ import annotations

from torch import Tensor

from dialog.models.heads import at_least_float


def coverage_loss(weights: Tensor, real: Tensor) -> Tensor:
    """sum_t sum_i min(a_i^t, c_i^t) with the coverage c^t = sum_{t' < t} a^t'; See et al. 2017,
    equations 10 to 12.

    For attention weights [B, T, S], summed over the target positions that are ``real`` [B, T];
    padding is on the right.
    """
    weights = at_least_float(weights)
    covered = weights.cumsum(1) - weights  # [B, T, S]
    return weights.minimum(covered).sum(-1).where(real, 0).sum()
