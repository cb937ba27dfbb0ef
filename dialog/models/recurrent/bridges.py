"""Bridges: the first hidden state of a recurrent decoder from the encoder's summary.

Shapes: B rows, M memory size, L layers, D hidden size. The summary has the last states of both directions.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dialog.config.components import Component, Family


class DenseBridge(nn.Module):
    """s_0 = tanh(W summary + b) for each layer, from both directions (Bahdanau et al. 2015 use the backward one)."""

    def __init__(self, memory_size: int, size: int, layers: int) -> None:
        super().__init__()
        self.dense = nn.Linear(memory_size, layers * size)
        self.size = size

    def forward(self, summary: Tensor) -> Tensor:
        """Map the summary [B, M] to hidden states [B, L, D]."""
        return torch.unflatten(torch.tanh(self.dense(summary)), -1, (-1, self.size))


class CopyBridge(nn.Module):
    """s_0 = the summary itself, [forward; backward], in each layer; encoder and decoder must have the same size."""

    def __init__(self, memory_size: int, size: int, layers: int) -> None:
        super().__init__()
        if memory_size != size:
            raise ValueError(f"the encoder's summary has size {memory_size}, the decoder {size}; make them equal")
        self.layers = layers

    def forward(self, summary: Tensor) -> Tensor:
        """Repeat the summary [B, D] as hidden states [B, L, D]."""
        return summary.unsqueeze(1).expand(-1, self.layers, -1)


class ZeroBridge(nn.Module):
    """s_0 = 0: the decoder depends on the source through attention only."""

    def __init__(self, size: int, layers: int) -> None:
        super().__init__()
        self.size, self.layers = size, layers

    def forward(self, summary: Tensor) -> Tensor:
        """Return hidden states [B, L, D] of zeros."""
        return summary.new_zeros(len(summary), self.layers, self.size)


BRIDGES: Family[nn.Module] = Family(
    "bridge", {"dense": DenseBridge, "copy": CopyBridge, "zero": ZeroBridge}, runtime=("memory_size", "size", "layers")
)
DENSE: Component = {"name": "dense"}
"""The default bridge."""
