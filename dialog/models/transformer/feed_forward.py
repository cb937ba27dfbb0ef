"""Feed-forward networks, applied at each position.

Shapes: B rows, T tokens, D width, I inner width.
"""

from __future__ import annotations

from functools import partial
from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn

from dialog.config.components import Family
from dialog.models.kernels.linear import Linear
from dialog.models.kernels.products import HalfProduct, Product, joined, product


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
        """Return the network for rows [N, D] in float32."""
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
        """Return the network for rows [N, D] in float32."""
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
