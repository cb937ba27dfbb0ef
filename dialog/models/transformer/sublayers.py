"""Norm and residual sum around a sublayer, feed-forward networks, and dropout of whole layers.

Shapes: B rows, T tokens, D width, I inner width.
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
from dialog.models.kernels.linear import Linear
from dialog.models.kernels.products import HalfProduct, Product, joined, product

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

    def prepared(self, dtype: torch.dtype) -> Callable[[Tensor, Product], Tensor]:
        """Return the same for rows [N, D] of a type."""
        norm = prepared_norm(self.norm, dtype)
        if self.norm_first:
            return lambda rows, sublayer: rows + sublayer(norm(rows))
        return lambda rows, sublayer: norm(rows + sublayer(rows))


class FeedForward(nn.Sequential):
    """f(x W_1 + b_1) W_2 + b_2 at each position; Vaswani et al. 2017, 3.3.

    There f(x) = max(0, x); gelu is f(x) = x Phi(x), Hendrycks & Gimpel 2016, 2. Dropout applies to
    the output of f.
    """

    def __init__(
        self, size: int, inner: int, dropout: float, *, activation: type[nn.Module]
    ) -> None:
        super().__init__(
            Linear(size, inner), activation(), nn.Dropout(dropout), Linear(inner, size)
        )
        for name, parameter in self.named_parameters():
            (nn.init.zeros_ if name.endswith("bias") else nn.init.xavier_uniform_)(parameter)

    def prepared(self, *, int8: bool) -> Product:
        """Return the network for rows [N, D]."""
        first, activation, _, last = self
        inner, outer = (joined([cast("nn.Linear", part)], int8) for part in (first, last))
        if isinstance(activation, nn.ReLU):
            # max(0, x) rounds nothing
            rectified = inner.half if isinstance(inner, HalfProduct) else inner
            return lambda rows: outer(rectified(rows).relu_())
        return lambda rows: outer(activation(inner(rows)))


class SwiGLU(nn.Module):
    """(swish(x W) * x V) W_2 at each position, swish(x) = x sigmoid(x); Shazeer 2020, (6).

    No biases; 2/3 of the inner width gives as many parameters as `FeedForward`. Dropout applies to
    the product.
    """

    def __init__(self, size: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.gate = Linear(size, inner, bias=False)
        self.value = Linear(size, inner, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.output = Linear(inner, size, bias=False)
        for parameter in self.parameters():
            nn.init.xavier_uniform_(parameter)

    def forward(self, states: Tensor) -> Tensor:
        """Map states [B, T, D] to [B, T, D]."""
        inner = F.silu(self.gate(states)) * self.value(states)  # [B, T, I]
        output: Tensor = self.output(self.dropout(inner))  # [B, T, D]
        return output

    def prepared(self, *, int8: bool) -> Product:
        """Return the network for rows [N, D]."""
        both = joined([self.gate, self.value], int8)
        output = product(self.output.weight, int8=int8)

        def gated(rows: Tensor) -> Tensor:
            gate, value = both(rows).chunk(2, 1)
            return output(F.silu(gate).mul_(value))

        return gated


FEED_FORWARDS: Family[nn.Module] = Family(
    "activation",
    {
        "relu": partial(FeedForward, activation=nn.ReLU),
        "gelu": partial(FeedForward, activation=nn.GELU),
        "swiglu": SwiGLU,
    },
)
"""By the name of the activation."""


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


def prepared_norm(norm: nn.Module, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """Return a norm of rows of a type, without the overhead of a module's call."""
    norm = deepcopy(norm).to(dtype)
    if isinstance(norm, nn.LayerNorm):
        sizes = norm.normalized_shape
        weight = norm.weight
        bias = norm.bias
        smallest = norm.eps
        return lambda rows: F.layer_norm(rows, sizes, weight, bias, smallest)
    return cast("Callable[[Tensor], Tensor]", norm.forward)
