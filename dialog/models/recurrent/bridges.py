"""From a source's summary to the first state of a recurrent decoder.

Shapes: B rows, M memory size, L layers, D hidden size. The summary holds the last states of both directions.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dialog.config.components import Component, Family


class DenseBridge(nn.Module):
    """s_0 = tanh(W summary + b) for each layer, from both directions (Bahdanau et al. 2015 take the backward one)."""

    def __init__(self, memory_size: int, size: int, layers: int) -> None:
        super().__init__()
        self.dense = nn.Linear(memory_size, layers * size)
        self.size = size

    def forward(self, summary: Tensor) -> Tensor:
        """Summary [B, M] -> hidden [B, L, D]."""
        return torch.unflatten(torch.tanh(self.dense(summary)), -1, (-1, self.size))


class CopyBridge(nn.Module):
    """s_0 = the summary itself, [forward; backward], in each layer; it must have the decoder's size."""

    def __init__(self, memory_size: int, size: int, layers: int) -> None:
        super().__init__()
        if memory_size != size:
            raise ValueError(f"the encoder's summary has size {memory_size}, the decoder {size}; make them equal")
        self.layers = layers

    def forward(self, summary: Tensor) -> Tensor:
        """Summary [B, D] -> hidden [B, L, D]."""
        return summary.unsqueeze(1).expand(-1, self.layers, -1)


class ZeroBridge(nn.Module):
    """s_0 = 0: the decoder knows the source by its attention alone."""

    def __init__(self, size: int, layers: int) -> None:
        super().__init__()
        self.size, self.layers = size, layers

    def forward(self, summary: Tensor) -> Tensor:
        """Summary [B, M] -> hidden [B, L, D] of zeros."""
        return summary.new_zeros(len(summary), self.layers, self.size)


BRIDGES: Family[nn.Module] = Family(
    "bridge", {"dense": DenseBridge, "copy": CopyBridge, "zero": ZeroBridge}, runtime=("memory_size", "size", "layers")
)
DENSE: Component = {"name": "dense"}
"""The bridge of a recipe that names none."""
