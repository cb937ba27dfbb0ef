"""Where a token stands.

Shapes: T tokens, D width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class SinusoidalPositions(nn.Module):
    """p[t, 2i] = sin(t / 10000^(2i / D)), p[t, 2i + 1] = cos(t / 10000^(2i / D)); Vaswani et al. 2017, 3.5."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, inputs: Tensor, offset: int = 0) -> Tensor:
        """Inputs [B, T, D] with the positions ``offset``, ``offset`` + 1, ... added."""
        device = inputs.device
        exact = torch.float32 if device.type == "mps" else torch.float64  # in bfloat16, 256 and 257 are one position
        steps = torch.arange(offset, offset + inputs.shape[1], device=device, dtype=exact)
        frequencies = torch.exp(
            torch.arange(0, self.size, 2, device=device, dtype=exact) * (-math.log(1e4) / self.size)
        )
        angles = torch.outer(steps, frequencies)  # [T, ceil(D / 2)]
        table = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, : self.size]  # [T, D]
        return inputs + table.to(inputs.dtype)


POSITIONS = {"sinusoidal": SinusoidalPositions}
