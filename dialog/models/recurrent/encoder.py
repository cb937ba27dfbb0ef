"""The recurrent encoder.

Shapes: B rows, S source tokens, E embedding size, M memory size, D width of a direction (M or M / 2).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dialog.models.contracts import AttentionHook, Encoded, Encoder
from dialog.models.dropout import Dropout
from dialog.models.recurrent.cells import Cell, run, shared_mask


class RecurrentEncoder(Encoder):
    """Reads a source from the left and from the right; state j is [forward_j; backward_j], of M = size in all.

    The backward direction reads each row's real tokens in reverse, so padding is never seen and nothing is packed (on a
    CPU packing leaves the fused kernel). The summary is the last state of both directions; Bahdanau et al. 2015, 3.2.
    Dropout falls between layers; if ``variational``, with one mask for all steps, and on the recurrent states too (Gal
    & Ghahramani 2016), which leaves the fused kernel in training.
    """

    def __init__(
        self,
        cell: Cell,
        *,
        input_size: int,
        size: int,
        layers: int = 1,
        bidirectional: bool = True,
        variational: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if layers < 1:
            raise ValueError(f"layers must be at least 1, not {layers}")
        if bidirectional and size % 2:
            raise ValueError(f"size {size} of a bidirectional encoder must be even")
        self.cell = cell
        self.size = size
        self.width = size // 2 if bidirectional else size
        self.dropout = Dropout(dropout)
        self.variational = variational and dropout > 0
        widths = [input_size] + [size] * (layers - 1)
        self.forward_layers = nn.ModuleList(cell.layer(each, self.width) for each in widths)
        self.backward_layers = nn.ModuleList(cell.layer(each, self.width) for each in widths if bidirectional)

    def forward(self, inputs: Tensor, mask: Tensor, hook: AttentionHook | None = None) -> Encoded:
        """Inputs [B, S, E], mask [B, S] -> states [B, S, M]."""
        lengths = mask.sum(1, keepdim=True)  # [B, 1]
        steps = torch.arange(mask.shape[1], device=mask.device)  # [S]
        mirror = torch.where(mask, lengths - 1 - steps, steps)  # [B, S], its own inverse
        last = (lengths - 1).clamp(min=0).unsqueeze(-1)  # [B, 1, 1]
        states, ends = inputs, []
        for depth, layer in enumerate(self.forward_layers):
            states = self._between(states) if depth else states
            read = [self._read(layer, states)]  # [B, S, D]
            ends = [_gather(read[0], last)]
            if self.backward_layers:
                reverse = self._read(self.backward_layers[depth], _gather(states, mirror.unsqueeze(-1)))
                read.append(_gather(reverse, mirror.unsqueeze(-1)))  # [B, S, D]
                ends.append(_gather(reverse, last))
            states = torch.cat(read, -1)  # [B, S, M]
        real = mask.unsqueeze(-1)
        summary = torch.cat(ends, -1).squeeze(1) * real.any(1)  # [B, M]
        return Encoded(states.masked_fill(~real, 0.0), mask, summary)

    def _between(self, states: Tensor) -> Tensor:
        if self.variational and self.training:
            return states * shared_mask(states[:, :1], self.dropout.p)
        dropped: Tensor = self.dropout(states)
        return dropped

    def _read(self, layer: nn.Module, states: Tensor) -> Tensor:
        """One direction over a source, from a state of zeros."""
        hidden = states.new_zeros(len(states), self.width)
        kept = shared_mask(hidden, self.dropout.p) if self.variational and self.training else None
        return run(self.cell, layer, states, hidden, self.cell.memory(hidden), kept)[0]


def _gather(states: Tensor, steps: Tensor) -> Tensor:
    """States [B, S, D] at the steps [B, N, 1] -> [B, N, D]."""
    return states.gather(1, steps.expand(-1, -1, states.shape[-1]))
