"""Recurrent decoders prepared for generation, and their encoder in bfloat16.

Formulas: the `forward` of `BahdanauDecoder`, `LuongDecoder` and `PlainDecoder`. Each step is one
product per layer for all gates, one for the query of additive attention, and one for the output.

Shapes: B rows, N sources, K = B / N rows of a source, S source tokens, T target tokens, E embedding
size, M memory size, D hidden size, C cell state width.
"""

from __future__ import annotations

from abc import abstractmethod
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeGuard

import torch
from torch import Tensor, nn

from dialog.models.contracts import AttentionHook, Decoder, Encoded, Encoder, Memory, meant_for
from dialog.models.inference.products import Product, product
from dialog.models.inference.readers import prepared_reader, supports_reader
from dialog.models.inference.shared import SharedRows
from dialog.models.recurrent.bahdanau import BahdanauDecoder, BahdanauState
from dialog.models.recurrent.cells import RecurrentCell
from dialog.models.recurrent.encoder import RecurrentEncoder
from dialog.models.recurrent.luong import LuongDecoder, LuongState
from dialog.models.recurrent.plain import PlainDecoder
from dialog.models.recurrent.stack import StackState
from dialog.models.state import Rows

RecurrentDecoder = BahdanauDecoder | LuongDecoder | PlainDecoder


@dataclass(frozen=True)
class RecurrentState(Rows):
    """State between tokens."""

    hidden: tuple[Tensor, ...]  # of each layer [B, D]
    cells: tuple[Tensor, ...]  # of each layer [B, C]
    # the attentional vector of the previous token [B, E], if it is fed
    fed: tuple[Tensor, ...] = ()

    @classmethod
    def of(cls, state: BahdanauState | LuongState | StackState) -> RecurrentState:
        """Return a decoder's own state in float32."""
        stack = state if isinstance(state, StackState) else state.stack
        hidden, cells = (states.float().unbind(1) for states in (stack.hidden, stack.cell_state))
        fed = (state.fed.float(),) if isinstance(state, LuongState) and state.fed.shape[1] else ()
        return cls(hidden, cells, fed)


class StepOutput(NamedTuple):
    """Result of one token."""

    output: Tensor  # [B, E]
    state: RecurrentState
    weights: Tensor | None = None  # of the attention [N, K, S]


class PreparedRecurrent(Decoder):
    """Recurrent decoder; float32 states, products in the precision of the weights or in int8."""

    pointer = None

    def __init__(self, decoder: RecurrentDecoder, *, int8: bool) -> None:
        super().__init__()
        self.own_dropout = decoder.own_dropout
        self.original = decoder
        self.cell = decoder.stack.cell
        self.gates = [_gates(self.cell, layer, int8) for layer in decoder.stack.layers]

    def start(self, encoded: Encoded) -> tuple[Memory, RecurrentState]:
        """Return the decoder's memory, and s_0."""
        memory, state = self.original.start(encoded)
        return memory, RecurrentState.of(state)

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
        attention = self.original.pointer
        if attention is not None and (watch := meant_for(hook, attention)) is not None:
            watch(attention, torch.stack(seen, 2).flatten(0, 1).unsqueeze(1))  # [B, 1, T, S]
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


class Bfloat16Encoder(Encoder):
    """Recurrent encoder in bfloat16, with inputs and outputs in another precision."""

    def __init__(self, encoder: RecurrentEncoder) -> None:
        super().__init__()
        self.size = encoder.size
        self.own_dropout = encoder.own_dropout
        self.encoder = deepcopy(encoder).bfloat16()

    def forward(self, inputs: Tensor, mask: Tensor, hook: AttentionHook | None = None) -> Encoded:
        """Encode inputs [N, S, E], mask [N, S] into states [N, S, M]."""
        encoded: Encoded = self.encoder(inputs.bfloat16(), mask, hook)
        states, summary, *final = (
            part.to(inputs.dtype) for part in (encoded.states, encoded.summary, *encoded.final)
        )
        return Encoded(states, mask, summary, tuple(final))


class PreparedBahdanau(PreparedRecurrent):
    """Bahdanau's decoder."""

    def __init__(self, decoder: BahdanauDecoder, *, int8: bool) -> None:
        super().__init__(decoder, int8=int8)
        self.reader = prepared_reader(decoder.attention, int8=int8)
        self.readout = product(decoder.readout.weight, decoder.readout.bias, int8=int8)

    def start(self, encoded: Encoded) -> tuple[SharedRows, RecurrentState]:
        """Return what the attention reads, and s_0."""
        memory, state = super().start(encoded)
        return self.reader.start(memory), state

    def step(self, token: Tensor, memory: SharedRows, state: RecurrentState) -> StepOutput:
        """Attend with the state before the token."""
        context, weights = self.reader(state.hidden[-1], memory)
        state = self.advanced(state, token, context)
        pairs = self.readout(torch.cat((state.hidden[-1], token, context), 1))  # [B, 2 E]
        return StepOutput(pairs.view(len(pairs), -1, 2).amax(2), state, weights)


class PreparedLuong(PreparedRecurrent):
    """Luong's decoder, with and without input feeding."""

    def __init__(self, decoder: LuongDecoder, *, int8: bool) -> None:
        super().__init__(decoder, int8=int8)
        self.reader = prepared_reader(decoder.attention, int8=int8)
        self.attentional = product(decoder.attentional.weight, int8=int8)

    def start(self, encoded: Encoded) -> tuple[SharedRows, RecurrentState]:
        """Return what the attention reads, and s_0 with an attentional vector of zeros."""
        memory, state = super().start(encoded)
        return self.reader.start(memory), state

    def step(self, token: Tensor, memory: SharedRows, state: RecurrentState) -> StepOutput:
        """Attend with the state after the token."""
        state = self.advanced(state, token, *state.fed)
        context, weights = self.reader(state.hidden[-1], memory)
        output = self.attentional(torch.cat((context, state.hidden[-1]), 1)).tanh_()  # [B, E]
        return StepOutput(output, replace(state, fed=(output,)) if state.fed else state, weights)


class PreparedPlain(PreparedRecurrent):
    """Decoder without attention."""

    def __init__(self, decoder: PlainDecoder, *, int8: bool) -> None:
        super().__init__(decoder, int8=int8)
        output = decoder.output
        self.output = product(output.weight, int8=int8) if isinstance(output, nn.Linear) else None

    def step(self, token: Tensor, memory: Rows, state: RecurrentState) -> StepOutput:
        """Project the new state."""
        state = self.advanced(state, token)
        top = state.hidden[-1]
        return StepOutput(top if self.output is None else self.output(top), state)


def _gates(cell: RecurrentCell, layer: Any, int8: bool) -> Product:
    """Return the product [W U] [x; h] + b of a layer [4 D, .. + D]."""
    weight = torch.cat(
        [cell.from_inputs(layer.weight_ih_l0), cell.from_hidden(layer.weight_hh_l0)], 1
    )
    return product(
        weight, cell.from_inputs(layer.bias_ih_l0) + cell.from_hidden(layer.bias_hh_l0), int8=int8
    )


def supports_recurrent(decoder: nn.Module) -> TypeGuard[RecurrentDecoder]:
    """Return whether all parts of a decoder are those whose formula is written here."""
    if type(decoder) is BahdanauDecoder or type(decoder) is LuongDecoder:
        return supports_reader(decoder.attention)
    return type(decoder) is PlainDecoder


def prepare_recurrent(decoder: RecurrentDecoder, *, int8: bool) -> PreparedRecurrent:
    """Return the prepared form of a decoder that is supported."""
    if isinstance(decoder, BahdanauDecoder):
        return PreparedBahdanau(decoder, int8=int8)
    return (
        PreparedLuong(decoder, int8=int8)
        if isinstance(decoder, LuongDecoder)
        else PreparedPlain(decoder, int8=int8)
    )
