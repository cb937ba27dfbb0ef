"""The recurrent decoder that attends before each step; the energies are in `attention/additive.py`.

Shapes: B rows, S source tokens, T target tokens, E embedding size, M memory size, D hidden size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dialog.config.components import Component, build
from dialog.models.attention import build_attention
from dialog.models.contracts import AttentionHook, Decoder, Encoded, Memory, meant_for
from dialog.models.kernels.linear import Linear
from dialog.models.kernels.products import product
from dialog.models.recurrent.additive_loop import additive_loop
from dialog.models.recurrent.bridges import BRIDGES, DENSE, final_states, first_states
from dialog.models.recurrent.cells import RecurrentCell, RecurrentSettings
from dialog.models.recurrent.prepared import PreparedRecurrent, RecurrentState, StepOutput
from dialog.models.recurrent.stack import Stack, StackLoop, StackState
from dialog.models.state import Rows, SharedRows


@dataclass(frozen=True)
class BahdanauState(Rows):
    """State between tokens."""

    stack: StackState
    attention: Rows


class BahdanauDecoder(Decoder):
    """Attention queries with the state before the token, and its context enters the cell; Bahdanau
    et al. 2015.

    For token y at step i: c_i = attention(s_{i-1}, source), s_i = cell(s_{i-1}, [y; c_i]), output =
    the larger of each pair of U s_i + V y + C c_i (appendix A.2.2, with s_i as in equation 4).
    Upper layers read the layer below; the top layer queries. The loop contains only work that
    depends on the previous step: keys are projected once per source, and the tokens' part of the
    gates and the output are one product for all steps. With `AdditiveScorer`, several tokens and no
    hook, :func:`additive_loop` runs.
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
    ) -> None:
        super().__init__()
        size = settings.size
        input_size = settings.input_size
        self.attention = build_attention(attention, query_size=size, key_size=memory_size)
        self.stack = Stack(cell, settings, extra_size=memory_size)
        self.bridge = build(
            BRIDGES, bridge, memory_size=memory_size, size=size, layers=settings.layers
        )
        self.needs_final = final_states(self.bridge, cell, settings.layers)
        self.readout = Linear(size + input_size + memory_size, 2 * input_size)
        self.dropout = nn.Dropout(settings.dropout)

    @property
    def pointer(self) -> nn.Module | None:
        """The attention; None without attention."""
        return self.attention if self.attention.has_weights else None

    @property
    def preparable(self) -> bool:
        """True if the attention is."""
        return self.attention.preparable

    def prepared(self, *, int8: bool) -> PreparedBahdanau:
        """Return the same steps in fewer calls."""
        return PreparedBahdanau(self, int8=int8)

    def start(self, encoded: Encoded) -> tuple[Rows, BahdanauState]:
        """Return the attention's memory, and s_0 from the summary."""
        memory, read = self.attention.start(encoded)
        return memory, BahdanauState(self.stack.start(*first_states(self.bridge, encoded)), read)

    def forward(
        self,
        inputs: Tensor,
        memory: Memory,
        state: BahdanauState,
        hook: AttentionHook | None = None,
    ) -> tuple[Tensor, BahdanauState]:
        """Map inputs [B, T, E] to outputs [B, T, E]."""
        hook = meant_for(hook, self.attention)
        loop = StackLoop(self.stack, inputs, state.stack)
        scorer = self.attention.additive
        # for one step the loop is faster: autocast has the weights in its cache
        several = inputs.shape[1] > 1
        if hook is None and scorer is not None and several:
            outputs = self._readout(*additive_loop(loop, scorer, memory), inputs)
            return outputs, BahdanauState(loop.state(), state.attention)
        seen: list[Tensor] = []
        watch = None if hook is None else lambda _, weights: seen.append(weights)
        read = state.attention
        tops = []
        contexts = []
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
        """Map states [T, B, D], contexts [T, B, M] and inputs [B, T, E] to outputs [B, T, E]."""
        parts = torch.cat([tops, inputs.transpose(0, 1), contexts], -1)  # [T, B, D + E + M]
        pairs = torch.unflatten(self.readout(self.dropout(parts)), -1, (-1, 2))  # [T, B, E, 2]
        return pairs.amax(-1).transpose(0, 1)  # [B, T, E]


class PreparedBahdanau(PreparedRecurrent):
    """`BahdanauDecoder` for generation."""

    def __init__(self, decoder: BahdanauDecoder, *, int8: bool) -> None:
        super().__init__(decoder, decoder.stack, int8=int8)
        self.original = decoder
        self.reader = decoder.attention.prepared(int8=int8)
        self.readout = product(decoder.readout.weight, decoder.readout.bias, int8=int8)

    def start(self, encoded: Encoded) -> tuple[SharedRows, RecurrentState]:
        """Return what the attention reads, and s_0."""
        memory, state = self.original.start(encoded)
        return self.reader.start(memory), RecurrentState.of(state.stack)

    def step(self, token: Tensor, memory: SharedRows, state: RecurrentState) -> StepOutput:
        """Attend with the state before the token."""
        context, weights = self.reader(state.hidden[-1], memory)
        state = self.advanced(state, token, context)
        pairs = self.readout(torch.cat((state.hidden[-1], token, context), 1))  # [B, 2 E]
        return StepOutput(pairs.view(len(pairs), -1, 2).amax(2), state, weights)
