"""The recurrent decoder whose attention asks before the step.

Shapes: B rows, S source tokens, T target tokens, E embedding size, M memory size, D hidden size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dialog.components import Component, build
from dialog.models.attention import build_attention
from dialog.models.contracts import AttentionHook, Decoder, Encoded, Memory, meant_for
from dialog.models.recurrent.bridges import BRIDGES, DENSE
from dialog.models.recurrent.cells import Cell
from dialog.models.recurrent.stack import Loop, Stack, StackState
from dialog.models.state import Rows


@dataclass(frozen=True)
class BahdanauState(Rows):
    """What changes from token to token."""

    stack: StackState
    read: Rows  # what the attention remembers


class BahdanauDecoder(Decoder):
    """Attention asks with the state before the token, its answer enters the cell; Bahdanau et al. 2015.

    For token y at step i: c_i = attention(s_{i-1}, source), s_i = cell(s_{i-1}, [y; c_i]), output = the larger of each
    pair of U s_i + V y + C c_i (appendix A.2.2, with s_i as in equation 4). Upper layers read the layer below; the top
    one asks. The loop over steps does only what needs the step before: keys are projected once for each source, and the
    tokens' share of the gates and the output are one product for all steps.
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
        variational: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.attention = build_attention(attention, query_size=size, key_size=memory_size)
        self.stack = Stack(
            cell,
            input_size=input_size,
            extra_size=memory_size,
            size=size,
            layers=layers,
            variational=variational,
            dropout=dropout,
        )
        self.bridge = build(BRIDGES, bridge, memory_size=memory_size, size=size, layers=layers)
        self.readout = nn.Linear(size + input_size + memory_size, 2 * input_size)
        self.dropout = nn.Dropout(dropout)

    @property
    def pointer(self) -> nn.Module | None:
        """The attention, if there is one."""
        return self.attention if self.attention.shows else None

    def start(self, encoded: Encoded) -> tuple[Rows, BahdanauState]:
        """What the attention reads, and s_0 from the summary."""
        memory, read = self.attention.start(encoded)
        return memory, BahdanauState(self.stack.start(self.bridge(encoded.summary)), read)

    def forward(
        self, inputs: Tensor, memory: Memory, state: BahdanauState, hook: AttentionHook | None = None
    ) -> tuple[Tensor, BahdanauState]:
        """Inputs [B, T, E] -> outputs [B, T, E] and the state after them."""
        hook = meant_for(hook, self.attention)
        seen: list[Tensor] = []
        watch = None if hook is None else lambda _, weights: seen.append(weights)
        loop, read = Loop(self.stack, inputs, state.stack), state.read
        tops, contexts = [], []
        for gates in loop.gates:
            context, read = self.attention(loop.top.unsqueeze(1), memory, read, watch)  # [B, 1, M]
            loop.step(gates, context.squeeze(1))
            tops.append(loop.top)
            contexts.append(context)
        if hook is not None and seen:
            hook(self.attention, torch.cat(seen, 2))  # [B, H, T, S]
        parts = torch.cat([torch.stack(tops, 1), inputs, torch.cat(contexts, 1)], -1)  # [B, T, D + E + M]
        outputs = torch.unflatten(self.readout(self.dropout(parts)), -1, (-1, 2)).amax(-1)  # [B, T, E]
        return outputs, BahdanauState(loop.state(), read)
