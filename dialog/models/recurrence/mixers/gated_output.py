"""The end of most mixers: norm of each head, gate, output layer.

Shapes: B rows, T tokens, D size of the model, H heads, V width of a head.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.models.recurrence.mixers.mixer import projection

EPS = 1e-5


class HeadNorm(nn.Module):
    """x / root mean square(x) of each head, times a gain for each feature.

    The size of a state grows with the number of tokens that it sums; the norm removes that.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, mixed: Tensor) -> Tensor:
        """Map outputs of heads [B, T, H, V] to [B, T, H V]."""
        return F.rms_norm(mixed, mixed.shape[-1:], eps=EPS).flatten(-2) * self.gain


class GatedOutput(nn.Module):
    """W_o (norm(o) * f(W_g x)) for outputs o of the heads and inputs x; f is a gate."""

    def __init__(
        self, size: int, width: int, activation: Callable[[Tensor], Tensor] = F.silu
    ) -> None:
        super().__init__()
        self.norm = HeadNorm(width)
        self.gate = projection(size, width)
        self.output = projection(width, size)
        self.activation = activation

    def forward(self, mixed: Tensor, inputs: Tensor) -> Tensor:
        """Map outputs of heads [B, T, H, V] and inputs [B, T, D] to [B, T, D]."""
        gate = self.gate(inputs)
        normed = self.norm(mixed).to(gate.dtype)
        output: Tensor = self.output(normed * self.activation(gate))
        return output
