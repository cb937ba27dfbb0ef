"""The recurrent decoder that attends after each step.

Shapes: B rows, S source tokens, T target tokens, E embedding size, M memory size, D hidden size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from dialog.config.components import Component, build
from dialog.models.attention import build_attention
from dialog.models.contracts import AttentionHook, Decoder, Encoded, Memory, meant_for
from dialog.models.kernels.linear import Linear
from dialog.models.kernels.products import product
from dialog.models.recurrent.bridges import BRIDGES, DENSE, final_states, first_states
from dialog.models.recurrent.cells import RecurrentCell, RecurrentSettings
from dialog.models.recurrent.prepared import PreparedRecurrent, RecurrentState, StepOutput
from dialog.models.recurrent.stack import Stack, StackLoop, StackState
from dialog.models.state import Rows, SharedRows


@dataclass(frozen=True)
class LuongState(Rows):
    """State between tokens."""

    stack: StackState
    attention: Rows
    # [B, E], the attentional vector of the previous token; [B, 0] without input feeding
    fed: Tensor


class LuongDecoder(Decoder):
    """Attention queries with the new state, and its context changes the output only; Luong
    et al. 2015, 3 and 3.3.

    For token y at step t: s_t = cell(s_{t-1}, [y; h_{t-1}]), c_t = attention(s_t, source), output
    h_t = tanh(W [c_t; s_t]), the attentional vector, here of the embedding's size. Without
    ``input_feeding`` s_t = cell(s_{t-1}, y): the whole target runs in one fused call per layer, and
    all its attention in one batch.
    ``attentional_dropout``: whether dropout is applied to [c_t; s_t] too.
    """

    Settings = RecurrentSettings
    stepwise = True

    def __init__(
        self,
        cell: RecurrentCell,
        settings: RecurrentSettings,
        *,
        memory_size: int,
        attention: Component,
        bridge: Component = DENSE,
        input_feeding: bool = True,
        attentional_dropout: bool = True,
    ) -> None:
        super().__init__()
        size = settings.size
        input_size = settings.input_size
        self.attention = build_attention(attention, query_size=size, key_size=memory_size)
        self.stack = Stack(cell, settings, extra_size=input_size if input_feeding else 0)
        self.bridge = build(
            BRIDGES, bridge, memory_size=memory_size, size=size, layers=settings.layers
        )
        self.needs_final = final_states(self.bridge, cell, settings.layers)
        self.attentional = Linear(memory_size + size, input_size, bias=False)
        self.input_feeding = input_feeding
        self.input_size = input_size
        self.dropout = nn.Dropout(settings.dropout if attentional_dropout else 0.0)

    @property
    def pointer(self) -> nn.Module | None:
        """The attention; None without attention."""
        return self.attention if self.attention.has_weights else None

    @property
    def preparable(self) -> bool:
        """True if the attention is."""
        return self.attention.preparable

    def prepared(self, *, int8: bool) -> PreparedLuong:
        """Return the same steps in fewer calls."""
        return PreparedLuong(self, int8=int8)

    def start(self, encoded: Encoded) -> tuple[Rows, LuongState]:
        """Return the attention's memory, and s_0 from the summary with an attentional vector of
        zeros.
        """
        memory, read = self.attention.start(encoded)
        hidden, *cell_state = first_states(self.bridge, encoded)  # [B, L, D], [B, L, C]
        fed = hidden.new_zeros(len(hidden), self.input_size if self.input_feeding else 0)
        return memory, LuongState(self.stack.start(hidden, *cell_state), read, fed)

    def forward(
        self, inputs: Tensor, memory: Memory, state: LuongState, hook: AttentionHook | None = None
    ) -> tuple[Tensor, LuongState]:
        """Map inputs [B, T, E] to outputs [B, T, E]."""
        hook = meant_for(hook, self.attention)
        if not self.input_feeding:
            states, stack = self.stack(inputs, state.stack)  # [B, T, D]
            contexts, read = self.attention(states, memory, state.attention, hook)  # [B, T, M]
            return self._attentional(contexts, states), LuongState(stack, read, state.fed)
        seen: list[Tensor] = []
        watch = None if hook is None else lambda _, weights: seen.append(weights)
        loop = StackLoop(self.stack, inputs, state.stack)
        read = state.attention
        fed = state.fed
        outputs = []
        for gates in loop.gates:
            loop.step(gates, fed)
            top = loop.top.unsqueeze(1)  # [B, 1, D]
            context, read = self.attention(top, memory, read, watch)  # [B, 1, M]
            outputs.append(self._attentional(context, top))
            fed = outputs[-1].squeeze(1)  # [B, E]
        if hook is not None and seen:
            hook(self.attention, torch.cat(seen, 2))  # [B, H, T, S]
        return torch.cat(outputs, 1), LuongState(loop.state(), read, fed)

    def _attentional(self, contexts: Tensor, states: Tensor) -> Tensor:
        """Map contexts [B, T, M] and states [B, T, D] to attentional vectors [B, T, E]."""
        return torch.tanh(
            self.attentional(self.dropout(torch.cat([contexts, states.to(contexts.dtype)], -1)))
        )


class PreparedLuong(PreparedRecurrent):
    """`LuongDecoder` for generation, with and without input feeding."""

    def __init__(self, decoder: LuongDecoder, *, int8: bool) -> None:
        super().__init__(decoder, decoder.stack, int8=int8)
        self.original = decoder
        self.reader = decoder.attention.prepared(int8=int8)
        self.attentional = product(decoder.attentional.weight, int8=int8)

    def start(self, encoded: Encoded) -> tuple[SharedRows, RecurrentState]:
        """Return what the attention reads, and s_0 with an attentional vector of zeros."""
        memory, state = self.original.start(encoded)
        fed = (state.fed.float(),) if self.original.input_feeding else ()
        return self.reader.start(memory), replace(RecurrentState.of(state.stack), fed=fed)

    def step(self, token: Tensor, memory: SharedRows, state: RecurrentState) -> StepOutput:
        """Attend with the state after the token."""
        state = self.advanced(state, token, *state.fed)
        context, weights = self.reader(state.hidden[-1], memory)
        output = self.attentional(torch.cat((context, state.hidden[-1]), 1)).tanh_()  # [B, E]
        return StepOutput(output, replace(state, fed=(output,)) if state.fed else state, weights)
