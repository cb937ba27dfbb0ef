"""The recurrent decoder whose attention asks after the step.

Shapes: B rows, S source tokens, T target tokens, E embedding size, M memory size, D hidden size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dialog.config.components import Component, build
from dialog.models.attention import build_attention
from dialog.models.contracts import AttentionHook, Decoder, Encoded, Memory, meant_for
from dialog.models.dropout import Dropout
from dialog.models.recurrent.bridges import BRIDGES, DENSE
from dialog.models.recurrent.cells import Cell
from dialog.models.recurrent.stack import Loop, Stack, StackState
from dialog.models.state import Rows


@dataclass(frozen=True)
class LuongState(Rows):
    """What changes from token to token."""

    stack: StackState
    read: Rows  # what the attention remembers
    fed: Tensor  # [B, E], the attentional vector of the token before; [B, 0] where it is not fed


class LuongDecoder(Decoder):
    """Attention asks with the new state; its answer makes the output, not the state; Luong et al. 2015, 3 and 3.3.

    For token y at step t: s_t = cell(s_{t-1}, [y; h_{t-1}]), c_t = attention(s_t, source), output h_t =
    tanh(W [c_t; s_t]), the attentional vector, here of the embedding's size. Without ``input_feeding`` s_t =
    cell(s_{t-1}, y): the whole target runs in one fused call a layer, and all its attention in one batch.
    """

    stepwise = True

    def __init__(
        self,
        cell: Cell,
        *,
        input_size: int,
        memory_size: int,
        size: int,
        layers: int = 1,
        attention: Component,
        bridge: Component = DENSE,
        input_feeding: bool = True,
        variational: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.attention = build_attention(attention, query_size=size, key_size=memory_size)
        self.stack = Stack(
            cell,
            input_size=input_size,
            extra_size=input_size if input_feeding else 0,
            size=size,
            layers=layers,
            variational=variational,
            dropout=dropout,
        )
        self.bridge = build(BRIDGES, bridge, memory_size=memory_size, size=size, layers=layers)
        self.attentional = nn.Linear(memory_size + size, input_size, bias=False)
        self.input_feeding = input_feeding
        self.input_size = input_size
        self.dropout = Dropout(dropout)

    @property
    def pointer(self) -> nn.Module | None:
        """The attention, if there is one."""
        return self.attention if self.attention.shows else None

    def start(self, encoded: Encoded) -> tuple[Rows, LuongState]:
        """What the attention reads, and s_0 from the summary; nothing is fed to the first token."""
        memory, read = self.attention.start(encoded)
        hidden = self.bridge(encoded.summary)  # [B, L, D]
        fed = hidden.new_zeros(len(hidden), self.input_size if self.input_feeding else 0)
        return memory, LuongState(self.stack.start(hidden), read, fed)

    def forward(
        self, inputs: Tensor, memory: Memory, state: LuongState, hook: AttentionHook | None = None
    ) -> tuple[Tensor, LuongState]:
        """Inputs [B, T, E] -> outputs [B, T, E] and the state after them."""
        hook = meant_for(hook, self.attention)
        if not self.input_feeding:
            states, stack = self.stack(inputs, state.stack)  # [B, T, D]
            contexts, read = self.attention(states, memory, state.read, hook)  # [B, T, M]
            return self._attentional(contexts, states), LuongState(stack, read, state.fed)
        seen: list[Tensor] = []
        watch = None if hook is None else lambda _, weights: seen.append(weights)
        loop, read, fed = Loop(self.stack, inputs, state.stack), state.read, state.fed
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
        """Contexts [B, T, M] and states [B, T, D] -> attentional vectors [B, T, E]."""
        return torch.tanh(self.attentional(self.dropout(torch.cat([contexts, states.to(contexts.dtype)], -1))))
