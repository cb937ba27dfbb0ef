"""Bridges: the first state of a recurrent decoder from the encoder's summary or its final states.

Shapes: B rows, M memory size, L layers, D hidden size. The summary has the last states of both
    directions.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dialog.config.components import Component, Family
from dialog.models.contracts import Encoded, FinalStates
from dialog.models.kernels.linear import Linear
from dialog.models.recurrent.cells import RecurrentCell


class DenseBridge(nn.Module):
    """s_0 = tanh(W summary + b) for each layer, from both directions (Bahdanau et al. 2015 use the
    backward one).
    """

    def __init__(self, memory_size: int, size: int, layers: int) -> None:
        super().__init__()
        self.dense = Linear(memory_size, layers * size)
        self.size = size

    def forward(self, summary: Tensor) -> Tensor:
        """Map the summary [B, M] to hidden states [B, L, D]."""
        return torch.unflatten(torch.tanh(self.dense(summary)), -1, (-1, self.size))


class CopyBridge(nn.Module):
    """s_0 = the summary itself, [forward; backward], in each layer; encoder and decoder must have
    the same size.
    """

    def __init__(self, memory_size: int, size: int, layers: int) -> None:
        super().__init__()
        check_equal_sizes(memory_size, size)
        self.layers = layers

    def forward(self, summary: Tensor) -> Tensor:
        """Repeat the summary [B, D] as hidden states [B, L, D]."""
        return summary.unsqueeze(1).expand(-1, self.layers, -1)


class ZeroBridge(nn.Module):
    """s_0 = 0: the decoder depends on the source through attention only."""

    def __init__(self, size: int, layers: int) -> None:
        super().__init__()
        self.size = size
        self.layers = layers

    def forward(self, summary: Tensor) -> Tensor:
        """Return hidden states [B, L, D] of zeros."""
        return summary.new_zeros(len(summary), self.layers, self.size)


class FinalBridge(nn.Module):
    """s_0 = the last hidden and cell state of the encoder's layer, of equal size; Sutskever
    et al. 2014.
    """

    def __init__(self, memory_size: int, size: int) -> None:
        super().__init__()
        check_equal_sizes(memory_size, size)

    def forward(self, hidden: Tensor, cell_state: Tensor) -> tuple[Tensor, Tensor]:
        """Return hidden [B, L, D] and cell states [B, L, C]."""
        return hidden, cell_state


def final_states(bridge: nn.Module, cell: RecurrentCell, layers: int) -> FinalStates | None:
    """Return the encoder's states that a bridge needs, or None if it needs the summary or
    nothing.
    """
    return FinalStates(cell.name, layers) if isinstance(bridge, FinalBridge) else None


def first_states(bridge: nn.Module, encoded: Encoded) -> tuple[Tensor, ...]:
    """Return a decoder's first hidden states [B, L, D], and its cell states [B, L, C] if they are
    not zeros.
    """
    if not isinstance(bridge, FinalBridge):
        return (bridge(encoded.summary),)
    first: tuple[Tensor, ...] = bridge(*encoded.final)
    return first


def check_equal_sizes(memory_size: int, size: int) -> None:
    """Raise ValueError unless encoder and decoder have the same size."""
    if memory_size != size:
        raise ValueError(
            f"the encoder's summary has size {memory_size}, the decoder {size}; make them equal"
        )


BRIDGES: Family[nn.Module] = Family(
    "bridge",
    {"dense": DenseBridge, "copy": CopyBridge, "final": FinalBridge, "zero": ZeroBridge},
    runtime=("memory_size", "size", "layers"),
)
DENSE: Component = {"name": "dense"}
"""The default bridge."""
