"""Layers of recurrent cells of a decoder: inputs are tokens and, at each step, an extra vector.

Shapes: B rows, T target tokens, E embedding size, X width of the extra vector, L layers, D hidden
size, C cell state width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.models.recurrent.cells import RecurrentCell, RecurrentSettings, shared_mask
from dialog.models.recurrent.sequences import run_layer
from dialog.models.state import Rows


@dataclass(frozen=True)
class StackState(Rows):
    """State of each layer, and the masks of variational dropout."""

    hidden: Tensor  # [B, L, D]
    cell_state: Tensor  # [B, L, C]
    # of the recurrent states and of the inputs from below, each [B, L, D]; or empty
    masks: tuple[Tensor, ...]


class Stack(nn.Module):
    """Layer l reads layer l - 1; the bottom layer reads tokens, and an extra vector if
    ``extra_size`` > 0.
    """

    def __init__(
        self, cell: RecurrentCell, settings: RecurrentSettings, *, extra_size: int
    ) -> None:
        super().__init__()
        self.cell = cell
        self.split = [settings.input_size, extra_size]
        widths = [sum(self.split)] + [settings.size] * (settings.layers - 1)
        self.layers = nn.ModuleList(
            cell.layer(width, settings.size, settings.initialisation) for width in widths
        )
        self.variational = settings.variational and settings.dropout > 0
        self.dropout = nn.Dropout(settings.dropout)

    def start(self, hidden: Tensor, cell_state: Tensor | None = None) -> StackState:
        """Return the state before the first token for hidden [B, L, D]; draws the masks of the
        whole target.

        Cell states [B, L, C] are zeros if not given.

        It has the precision of the weights, even if autocast rounds the summary: states accumulate
        over all steps.
        """
        hidden = hidden.to(next(self.layers.parameters()).dtype)
        # [B, L, C]
        zeros = torch.stack([self.cell.first_state(layer) for layer in hidden.unbind(1)], 1)
        cell_state = zeros if cell_state is None else cell_state.to(hidden.dtype).expand_as(zeros)
        has_masks = self.variational and self.training
        masks = tuple(shared_mask(hidden, self.dropout.p) for _ in range(2)) if has_masks else ()
        return StackState(hidden, cell_state, masks)

    def forward(self, inputs: Tensor, state: StackState) -> tuple[Tensor, StackState]:
        """Run tokens [B, T, E] without an extra vector: layer by layer, each over all steps in the
        fused kernel.
        """
        hidden = []
        cell_states = []
        states = inputs
        for depth, layer in enumerate(self.layers):
            states = self.between(states, depth, state.masks) if depth else states
            mask = state.masks[0][:, depth] if state.masks else None
            states, *last = run_layer(
                self.cell, layer, states, state.hidden[:, depth], state.cell_state[:, depth], mask
            )
            hidden.append(last[0])
            cell_states.append(last[1])
        return states, StackState(torch.stack(hidden, 1), torch.stack(cell_states, 1), state.masks)

    def between(self, states: Tensor, depth: int, masks: tuple[Tensor, ...]) -> Tensor:
        """Apply dropout to the input [B, T, D] of layer ``depth`` from the layer below."""
        if masks:
            return states * masks[1][:, depth : depth + 1]
        dropped: Tensor = self.dropout(states)
        return dropped


class StackLoop:
    """A stack step by step: one product for the tokens' part of all gates, the rest at each step.

    Weights are used as they are, so that a single step copies none of them and autocast keeps its
    casts of them; it would cast anything computed from weights at each step.
    """

    def __init__(self, stack: Stack, inputs: Tensor, state: StackState) -> None:
        cell = stack.cell
        layers: list[Any] = list(stack.layers)
        from_token, from_extra = torch.split(layers[0].weight_ih_l0, stack.split, 1)
        tokens = inputs.transpose(0, 1)  # [T, B, E]
        self.gates = cell.from_inputs(F.linear(tokens, from_token), -1)  # [T, B, 4 D]
        dtype = self.gates.dtype
        bias, *self.biases = [_bias(cell, layer).to(dtype) for layer in layers]  # [4 D]
        self.gates = self.gates + bias
        self.input_weights = [from_extra.to(dtype), *(layer.weight_ih_l0 for layer in layers[1:])]
        self.hidden_weights = [layer.weight_hh_l0 for layer in layers]
        self.stack = stack
        self.masks = state.masks
        self.upward_masks = self._upward_masks(state.hidden, len(tokens))
        self.steps = 0
        self.recurrent_masks = state.masks[0].unbind(1) if state.masks else ()
        # L of [B, D]
        self.hidden = list(state.hidden.unbind(1))
        self.cell_states = list(state.cell_state.unbind(1))

    @property
    def top(self) -> Tensor:
        """Hidden state of the last layer [B, D]."""
        return self.hidden[-1]

    def step(self, gates: Tensor, extra: Tensor) -> None:
        """Advance by one token, with its part of the gates [B, 4 D] and the extra vector [B, X]."""
        self._update(0, gates, extra)
        for depth, bias in enumerate(self.biases, start=1):
            below = self.hidden[depth - 1]
            if self.upward_masks:
                below = below * self.upward_masks[depth - 1][self.steps]
            self._update(depth, bias, below)
        self.steps += 1

    def product_weights(self) -> list[Tensor]:
        """Return [W U] of each layer, for one product per step: [4 D, X + D], then [4 D, 2 D]."""
        cell = self.stack.cell
        dtype = self.gates.dtype
        return [
            torch.cat([cell.from_inputs(entering.to(dtype)), cell.from_hidden(own.to(dtype))], 1)
            for entering, own in zip(self.input_weights, self.hidden_weights, strict=True)
        ]

    def state(self) -> StackState:
        """Return the current state."""
        return StackState(torch.stack(self.hidden, 1), torch.stack(self.cell_states, 1), self.masks)

    def _upward_masks(self, hidden: Tensor, steps: int) -> list[tuple[Tensor, ...]]:
        """Masks [B, D] of dropout between layers, for layers 1, 2, .. and each step; or empty."""
        if not self.masks and not (self.stack.training and self.stack.dropout.p > 0):
            return []
        ones = hidden.new_ones(len(hidden), steps, hidden.shape[2])
        return [
            self.stack.between(ones, depth, self.masks).unbind(1)
            for depth in range(1, hidden.shape[1])
        ]

    def _update(self, depth: int, gates: Tensor, below: Tensor) -> None:
        """Advance a layer: its input ``below`` and its own state are added to a part of its
        gates.
        """
        cell = self.stack.cell
        hidden = self.hidden[depth]
        # for this product only
        masked = hidden * self.recurrent_masks[depth] if self.recurrent_masks else hidden
        # [B, 4 D]
        entering = cell.from_inputs(F.linear(below.to(gates.dtype), self.input_weights[depth]), -1)
        # [B, 4 D]
        own = cell.from_hidden(F.linear(masked.to(gates.dtype), self.hidden_weights[depth]), -1)
        self.hidden[depth], self.cell_states[depth] = cell.step(
            gates + entering + own, hidden, self.cell_states[depth]
        )


def _bias(cell: RecurrentCell, layer: Any) -> Tensor:
    """Sum both biases of a layer [4 D]."""
    return cell.from_inputs(layer.bias_ih_l0) + cell.from_hidden(layer.bias_hh_l0)
