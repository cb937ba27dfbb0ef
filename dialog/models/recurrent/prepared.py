"""Recurrent decoders prepared for generation: what they share.

Each step is one product per layer for all gates, one for the query of additive attention, and one
for the output. Each decoder's own step is beside its formula.

Shapes: B rows, N sources, K = B / N rows of a source, S source tokens, T target tokens, E embedding
size, D hidden size, C cell state width.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dialog.models.contracts import AttentionHook, Decoder, Memory, meant_for
from dialog.models.kernels.products import Product, product
from dialog.models.recurrent.cells import RecurrentCell
from dialog.models.recurrent.stack import Stack, StackState
from dialog.models.state import Rows


@dataclass(frozen=True)
class RecurrentState(Rows):
    """State between tokens."""

    hidden: tuple[Tensor, ...]  # of each layer [B, D]
    cells: tuple[Tensor, ...]  # of each layer [B, C]
    # the attentional vector of the previous token [B, E], if it is fed
    fed: tuple[Tensor, ...] = ()

    @classmethod
    def of(cls, state: StackState) -> RecurrentState:
        """Return a stack's state in float32."""
        return cls(state.hidden.float().unbind(1), state.cell_state.float().unbind(1))


class StepOutput(NamedTuple):
    """Result of one token."""

    output: Tensor  # [B, E]
    state: RecurrentState
    weights: Tensor | None = None  # of the attention [N, K, S]


class PreparedRecurrent(Decoder):
    """Recurrent decoder; float32 states, products in the precision of the weights or in int8."""

    pointer = None

    def __init__(self, decoder: Decoder, stack: Stack, *, int8: bool) -> None:
        super().__init__()
        self.own_dropout = decoder.own_dropout
        self.watched = decoder.pointer
        self.cell = stack.cell
        self.gates = [_gates(self.cell, layer, int8) for layer in stack.layers]

    def forward(
        self,
        inputs: Tensor,
        memory: Memory,
        state: RecurrentState,
        hook: AttentionHook | None = None,
    ) -> tuple[Tensor, RecurrentState]:
        """Map inputs [B, T, E] to outputs [B, T, E]."""
        outputs = []
        seen = []
        for token in inputs.float().unbind(1):  # [B, E]
            output, state, weights = self.step(token, memory, state)
            outputs.append(output)
            if weights is not None:
                seen.append(weights)
        if self.watched is not None and (watch := meant_for(hook, self.watched)) is not None:
            watch(self.watched, torch.stack(seen, 2).flatten(0, 1).unsqueeze(1))  # [B, 1, T, S]
        return torch.stack(outputs, 1), state

    @abstractmethod
    def step(self, token: Tensor, memory: Memory, state: RecurrentState) -> StepOutput:
        """Advance by one token [B, E]."""

    def advanced(self, state: RecurrentState, *entering: Tensor) -> RecurrentState:
        """Return the state after a step of all layers, whose lowest reads these vectors [B, ..]."""
        hidden = []
        cells = []
        for gates, own, cell_state in zip(self.gates, state.hidden, state.cells, strict=True):
            above, kept = self.cell.step(gates(torch.cat((*entering, own), 1)), own, cell_state)
            hidden.append(above)
            cells.append(kept)
            entering = (above,)
        return replace(state, hidden=tuple(hidden), cells=tuple(cells))


def _gates(cell: RecurrentCell, layer: Any, int8: bool) -> Product:
    """Return the product [W U] [x; h] + b of a layer [4 D, .. + D]."""
    weight = torch.cat(
        [cell.from_inputs(layer.weight_ih_l0), cell.from_hidden(layer.weight_hh_l0)], 1
    )
    return product(
        weight, cell.from_inputs(layer.bias_ih_l0) + cell.from_hidden(layer.bias_hh_l0), int8=int8
    )
