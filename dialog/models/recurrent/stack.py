"""Layers of recurrent cells that read tokens, and at each step a vector more.

Shapes: B rows, T target tokens, E embedding size, X width of the vector more, L layers, D hidden size, C cell width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.models.dropout import Dropout
from dialog.models.recurrent.cells import Cell, run, shared_mask
from dialog.models.state import Rows


@dataclass(frozen=True)
class StackState(Rows):
    """What each layer remembers, and what variational dropout keeps of it."""

    hidden: Tensor  # [B, L, D]
    memory: Tensor  # [B, L, C]
    kept: tuple[Tensor, ...]  # masks of the recurrent states and of what goes up, each [B, L, D]; or none


class Stack(nn.Module):
    """Layer l reads layer l - 1; the bottom one reads tokens, and a vector more where ``extra_size`` says so.

    Dropout falls between layers; if ``variational``, with one mask for all steps, and on the recurrent states too (Gal
    & Ghahramani 2016).
    """

    def __init__(
        self,
        cell: Cell,
        *,
        input_size: int,
        extra_size: int,
        size: int,
        layers: int,
        variational: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        if layers < 1:
            raise ValueError(f"layers must be at least 1, not {layers}")
        self.cell = cell
        self.split = [input_size, extra_size]
        self.layers = nn.ModuleList(cell.layer(size if depth else sum(self.split), size) for depth in range(layers))
        self.variational = variational and dropout > 0
        self.dropout = Dropout(dropout)

    def start(self, hidden: Tensor) -> StackState:
        """The state before the first token, for hidden [B, L, D]; masks are drawn here, for a whole target.

        It is in the weights' own precision, whatever autocast makes of a summary: states add up over all steps.
        """
        hidden = hidden.to(next(self.layers.parameters()).dtype)
        memory = torch.stack([self.cell.memory(each) for each in hidden.unbind(1)], 1)  # [B, L, C]
        drawn = self.variational and self.training
        kept = tuple(shared_mask(hidden, self.dropout.p) for _ in range(2)) if drawn else ()
        return StackState(hidden, memory, kept)

    def forward(self, inputs: Tensor, state: StackState) -> tuple[Tensor, StackState]:
        """Tokens [B, T, E] alone -> outputs [B, T, D]: layer by layer, each over all steps in the fused kernel."""
        hidden, memory, states = [], [], inputs
        for depth, layer in enumerate(self.layers):
            states = self.between(states, depth, state.kept) if depth else states
            kept = state.kept[0][:, depth] if state.kept else None
            states, *last = run(self.cell, layer, states, state.hidden[:, depth], state.memory[:, depth], kept)
            hidden.append(last[0])
            memory.append(last[1])
        return states, StackState(torch.stack(hidden, 1), torch.stack(memory, 1), state.kept)

    def between(self, states: Tensor, depth: int, kept: tuple[Tensor, ...]) -> Tensor:
        """What layer ``depth`` reads of the layer below, states [B, T, D]."""
        if kept:
            return states * kept[1][:, depth : depth + 1]
        dropped: Tensor = self.dropout(states)
        return dropped


class Loop:
    """A stack step by step: the tokens' share of the gates is one product for all steps, the rest one a step and layer.

    Autocast would cast what is computed from weights anew at each step, so it is cast here.
    """

    def __init__(self, stack: Stack, inputs: Tensor, state: StackState) -> None:
        cell, (bottom, *upper) = stack.cell, tuple[Any, ...](stack.layers)
        from_token, from_extra = torch.split(bottom.weight_ih_l0, stack.split, 1)
        tokens = inputs.transpose(0, 1)  # [T, B, E]
        self.gates = F.linear(tokens, cell.from_inputs(from_token), _bias(cell, bottom))  # [T, B, 4 D]
        dtype = self.gates.dtype
        self.weights = [torch.cat([cell.from_inputs(from_extra), cell.from_hidden(bottom.weight_hh_l0)], 1).to(dtype)]
        self.weights += [
            torch.cat([cell.from_inputs(each.weight_ih_l0), cell.from_hidden(each.weight_hh_l0)], 1).to(dtype)
            for each in upper
        ]  # [4 D, X + D], then [4 D, 2 D]
        self.biases = [_bias(cell, each).to(dtype) for each in upper]
        self.stack = stack
        self.kept = state.kept
        self.upward = self._upward(state.hidden, len(tokens))
        self.steps = 0
        self.recurrent = state.kept[0].unbind(1) if state.kept else ()
        self.hidden, self.memory = list(state.hidden.unbind(1)), list(state.memory.unbind(1))  # L times [B, D]

    @property
    def top(self) -> Tensor:
        """The hidden state of the last layer [B, D]."""
        return self.hidden[-1]

    def step(self, gates: Tensor, extra: Tensor) -> None:
        """One token: its share of the gates [B, 4 D], and the vector more [B, X]."""
        below = torch.cat([extra, self._kept(0).to(extra.dtype)], -1)  # [B, X + D]
        self._set(0, gates + F.linear(below, self.weights[0]))
        for depth, bias in enumerate(self.biases, start=1):
            entering = self.hidden[depth - 1]
            if self.upward:
                entering = entering * self.upward[depth - 1][self.steps]
            below = torch.cat([entering, self._kept(depth)], -1)  # [B, 2 D]
            self._set(depth, F.linear(below, self.weights[depth], bias))
        self.steps += 1

    def state(self) -> StackState:
        """What each layer remembers now."""
        return StackState(torch.stack(self.hidden, 1), torch.stack(self.memory, 1), self.kept)

    def _upward(self, hidden: Tensor, steps: int) -> list[tuple[Tensor, ...]]:
        """Masks of dropout between layers: for each layer but the first, and each step, [B, D]; or none."""
        if not self.kept and not (self.stack.training and self.stack.dropout.p > 0):
            return []
        ones = hidden.new_ones(len(hidden), steps, hidden.shape[2])
        return [self.stack.between(ones, depth, self.kept).unbind(1) for depth in range(1, hidden.shape[1])]

    def _kept(self, depth: int) -> Tensor:
        """What variational dropout leaves of a layer's state, for its product alone."""
        return self.hidden[depth] * self.recurrent[depth] if self.recurrent else self.hidden[depth]

    def _set(self, depth: int, gates: Tensor) -> None:
        self.hidden[depth], self.memory[depth] = self.stack.cell.step(gates, self.hidden[depth], self.memory[depth])


def _bias(cell: Cell, layer: Any) -> Tensor:  # noqa: ANN401 - nn.LSTM or nn.GRU, whose weights have made-up names
    """Both biases of a layer, as one for the gates [4 D]."""
    return cell.from_inputs(layer.bias_ih_l0) + cell.from_hidden(layer.bias_hh_l0)
