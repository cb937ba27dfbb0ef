"""The recurrent decoder whose attention asks before the step.

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
from dialog.models.kernels.additive_loop import read_along
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
    tokens' share of the gates and the output are one product for all steps. In training with Bahdanau's own scorer it
    is :func:`read_along`.
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
        self.dropout = Dropout(dropout)

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
        loop, scorer = Loop(self.stack, inputs, state.stack), self.attention.additive
        several = inputs.shape[1] > 1  # one step alone is the loop's, where autocast keeps what it has cast
        if hook is None and scorer is not None and several and torch.is_grad_enabled():
            outputs = self._readout(*read_along(loop, scorer, memory), inputs)
            return outputs, BahdanauState(loop.state(), state.read)
        seen: list[Tensor] = []
        watch = None if hook is None else lambda _, weights: seen.append(weights)
        read, tops, contexts = state.read, [], []
        for gates in loop.gates:
            context, read = self.attention(loop.top.unsqueeze(1), memory, read, watch)  # [B, 1, M]
            loop.step(gates, context.squeeze(1))
            tops.append(loop.top)
            contexts.append(context.squeeze(1))
        if hook is not None and seen:
            hook(self.attention, torch.cat(seen, 2))  # [B, H, T, S]
        outputs = self._readout(torch.stack(tops), torch.stack(contexts), inputs)
        return outputs, BahdanauState(loop.state(), read)

    def _readout(self, tops: Tensor, contexts: Tensor, inputs: Tensor) -> Tensor:
        """States [T, B, D], contexts [T, B, M] and inputs [B, T, E] -> outputs [B, T, E]."""
        parts = torch.cat([tops, inputs.transpose(0, 1), contexts], -1)  # [T, B, D + E + M]
        pairs = torch.unflatten(self.readout(self.dropout(parts)), -1, (-1, 2))  # [T, B, E, 2]
        return pairs.amax(-1).transpose(0, 1)  # [B, T, E]
