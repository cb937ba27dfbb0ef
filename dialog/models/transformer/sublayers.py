"""What stands around a layer's attention and feed-forward network: norm, residual sum, and leaving out a whole layer.

Shapes: B rows, T tokens, D width.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from dialog.config.components import Family
from dialog.models.dropout import Dropout

NORMS: Family[nn.Module] = Family("norm", {"layer_norm": nn.LayerNorm, "rms_norm": partial(nn.RMSNorm, eps=1e-5)})
"""(x - mean) / deviation * g + b, Ba et al. 2016; x / root mean square * g, Zhang & Sennrich 2019, (4)."""


class Residual(nn.Module):
    """A sublayer with its norm: x + f(norm(x)) with the norm first, norm(x + f(x)) with the norm last."""

    def __init__(self, norm: nn.Module, dropout: float, norm_first: bool) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.norm_first = norm_first

    def forward(self, states: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """States [B, T, D] -> [B, T, D]."""
        added: Tensor
        if self.norm_first:
            added = states + self.dropout(sublayer(self.norm(states)))
        else:
            added = self.norm(states + self.dropout(sublayer(states)))
        return added  # [B, T, D]


class LayerDrop(nn.Module):
    """In training, one draw for a batch: with the given probability a layer is left out; Fan et al. 2020, 3.2.

    The layer is computed all the same and then not chosen, so that each of its parameters takes part in every backward
    pass (with gradient 0): processes that train together draw apart, and none waits for a gradient that never comes.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        if not 0 <= probability < 1:
            raise ValueError(f"layer_drop must be at least 0 and below 1, not {probability}")
        self.probability = probability

    def forward(self, before: Tensor, after: Tensor) -> Tensor:
        """States before a layer and after it, each [B, T, D]: one of the two."""
        if not self.training or self.probability == 0:
            return after
        kept = torch.rand((), device=after.device) >= self.probability
        return torch.where(kept, after, before)  # [B, T, D]
