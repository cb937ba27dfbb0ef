"""Norm and residual sum around a sublayer, and dropout of whole layers.

Shapes: B rows, T tokens, D width.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.config.components import Family
from dialog.models.kernels.products import Product

NORMS: Family[nn.Module] = Family(
    "norm", {"layer_norm": nn.LayerNorm, "rms_norm": partial(nn.RMSNorm, eps=1e-5)}
)
"""(x - mean) / deviation * g + b, Ba et al. 2016; x / root mean square * g, Zhang & Sennrich 2019,
(4).
"""


class Residual(nn.Module):
    """A sublayer f with its norm: x + f(norm(x)) with norms first, norm(x + f(x)) with norms
    last.

    A sublayer of one input is called by `forward`; around any other one, `normed` returns its
    input, and `added` takes its output.
    """

    def __init__(self, norm: nn.Module, dropout: float, norm_first: bool) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def forward(self, states: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Map states [B, T, D] to [B, T, D]."""
        return self.added(states, sublayer(self.normed(states)))

    def normed(self, states: Tensor) -> Tensor:
        """Return the input [B, T, D] of the sublayer."""
        normed: Tensor = self.norm(states) if self.norm_first else states
        return normed

    def added(self, states: Tensor, output: Tensor) -> Tensor:
        """Add the sublayer's output to the states, each [B, T, D]."""
        total: Tensor = states + self.dropout(output)
        return total if self.norm_first else self.norm(total)

    def prepared(self) -> Callable[[Tensor, Product], Tensor]:
        """Return the same for rows [N, D] in float32."""
        norm = prepared_norm(self.norm)
        if self.norm_first:
            return lambda rows, sublayer: rows + sublayer(norm(rows))
        return lambda rows, sublayer: norm(rows + sublayer(rows))


class LayerDrop(nn.Module):
    """Dropout of a whole layer: in training, with one draw per batch; Fan et al. 2020, 3.2.

    The layer is computed and then discarded, so that each of its parameters gets a gradient (0) in
    every backward pass: distributed ranks draw independently, and none waits for a gradient that
    another rank never sends.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, before: Tensor, after: Tensor) -> Tensor:
        """Return the states before the layer or those after it, each [B, T, D]."""
        if not self.training or self.probability == 0:
            return after
        kept = torch.rand((), device=after.device) >= self.probability
        return torch.where(kept, after, before)  # [B, T, D]


def prepared_norm(norm: nn.Module) -> Callable[[Tensor], Tensor]:
    """Return a norm in float32, without the overhead of a module's call."""
    norm = deepcopy(norm).float()
    if isinstance(norm, nn.LayerNorm):
        sizes = norm.normalized_shape
        weight = norm.weight
        bias = norm.bias
        smallest = norm.eps
        return lambda rows: F.layer_norm(rows, sizes, weight, bias, smallest)
    return cast("Callable[[Tensor], Tensor]", norm.forward)
