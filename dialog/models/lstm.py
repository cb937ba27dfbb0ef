"""LSTM encoder and decoder with attention; Bahdanau, Cho & Bengio 2015, with LSTM cells for gated units.

Shapes: B rows, S source tokens, T target tokens, E embedding size, M memory size, D hidden size, K key width, L layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.components import Component
from dialog.models.attention import build_attention
from dialog.models.contracts import AttentionHook, Decoder, Encoded, Encoder
from dialog.models.state import Rows


def initialise(module: nn.Module) -> None:
    """Xavier for inputs, orthogonal for recurrences, forget gates open (bias 1; Jozefowicz et al. 2015)."""
    for name, parameter in module.named_parameters():
        if parameter.dim() < 2:
            nn.init.zeros_(parameter)
            if name.startswith("bias_ih"):  # gates in torch's order: input, forget, cell, output
                nn.init.ones_(parameter.chunk(4)[1])
        elif name.startswith("weight_hh"):
            for gate in parameter.chunk(4):
                nn.init.orthogonal_(gate)
        else:
            nn.init.xavier_uniform_(parameter)


class LSTMEncoder(Encoder):
    """Reads a source from the left and from the right; state j is [forward_j; backward_j], of M = size in all.

    The backward direction reads each row's real tokens in reverse, so padding is never seen and nothing is packed (on a
    CPU packing leaves the fused kernel). The summary is the last state of both directions.
    """

    def __init__(
        self, *, input_size: int, size: int, layers: int = 1, bidirectional: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if layers < 1:
            raise ValueError(f"layers must be at least 1, not {layers}")
        if bidirectional and size % 2:
            raise ValueError(f"size {size} of a bidirectional encoder must be even")
        self.size = size
        self.dropout = nn.Dropout(dropout)
        width = size // 2 if bidirectional else size
        widths = [input_size] + [size] * (layers - 1)
        self.forward_layers = nn.ModuleList(nn.LSTM(each, width, batch_first=True) for each in widths)
        self.backward_layers = nn.ModuleList(nn.LSTM(each, width, batch_first=True) for each in widths if bidirectional)
        for layer in (*self.forward_layers, *self.backward_layers):
            initialise(layer)

    def forward(self, inputs: Tensor, mask: Tensor, hook: AttentionHook | None = None) -> Encoded:
        """Inputs [B, S, E], mask [B, S] -> states [B, S, M]."""
        lengths = mask.sum(1, keepdim=True)  # [B, 1]
        steps = torch.arange(mask.shape[1], device=mask.device)  # [S]
        mirror = torch.where(mask, lengths - 1 - steps, steps)  # [B, S], its own inverse
        last = (lengths - 1).clamp(min=0).unsqueeze(-1)  # [B, 1, 1]
        states, ends = inputs, []
        for depth, layer in enumerate(self.forward_layers):
            states = self.dropout(states) if depth else states
            read = [_read(layer, states)]  # [B, S, M or M / 2]
            ends = [_gather(read[0], last)]
            if self.backward_layers:
                reverse = _read(self.backward_layers[depth], _gather(states, mirror.unsqueeze(-1)))
                read.append(_gather(reverse, mirror.unsqueeze(-1)))  # [B, S, M / 2]
                ends.append(_gather(reverse, last))
            states = torch.cat(read, -1)  # [B, S, M]
        real = mask.unsqueeze(-1)
        summary = torch.cat(ends, -1).squeeze(1) * real.any(1)  # [B, M]
        return Encoded(states.masked_fill(~real, 0.0), mask, summary)


def _read(layer: nn.Module, states: Tensor) -> Tensor:
    """One direction over a source; autocast is left off on a CPU whose kernels know no recurrence in bfloat16."""
    if not torch.is_autocast_enabled("cpu") or torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return cast("Tensor", layer(states)[0])
    with torch.autocast("cpu", enabled=False):
        return cast("Tensor", layer(states.to(next(layer.parameters()).dtype))[0])


def _gather(states: Tensor, steps: Tensor) -> Tensor:
    """States [B, S, D] at the steps [B, N, 1] -> [B, N, D]."""
    return states.gather(1, steps.expand(-1, -1, states.shape[-1]))


@dataclass(frozen=True)
class LSTMState(Rows):
    """What each layer of the decoder remembers."""

    hidden: Tensor  # [B, L, D]
    cell: Tensor  # [B, L, D]
    read: Rows  # what the attention remembers


class LSTMDecoder(Decoder):
    """The decoder of Bahdanau et al. 2015: attention asks with the state before the token, its answer enters the cell.

    For token y at step i: c_i = attention(s_{i-1}, source), s_i = LSTM(s_{i-1}, [y; c_i]), output = the larger of each
    pair of U s_i + V y + C c_i (appendix A.2.2, with s_i as in equation 4). Upper layers read the layer below. Each
    layer's first state is tanh(W summary), from both directions (there from the backward one). The loop over steps does
    only what needs the step before: keys are projected once for each source, and the tokens' share of the gates and the
    output are one product for all steps.
    """

    def __init__(
        self,
        *,
        input_size: int,
        memory_size: int,
        size: int,
        layers: int = 1,
        attention: Component,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if layers < 1:
            raise ValueError(f"layers must be at least 1, not {layers}")
        self.attention = build_attention(attention, query_size=size, key_size=memory_size)
        self.bridge = nn.Linear(memory_size, layers * size)
        self.cells = nn.ModuleList(
            nn.LSTMCell(size if depth else input_size + memory_size, size) for depth in range(layers)
        )
        self.readout = nn.Linear(size + input_size + memory_size, 2 * input_size)
        self.dropout = nn.Dropout(dropout)
        self.input_size = input_size
        self.size = size
        for cell in self.cells:
            initialise(cell)

    def start(self, encoded: Encoded) -> tuple[Rows, LSTMState]:
        """Keys for each source token, and s_0 = tanh(W summary)."""
        hidden = torch.unflatten(torch.tanh(self.bridge(encoded.summary)), -1, (-1, self.size))  # [B, L, D]
        hidden = hidden.to(self.bridge.weight.dtype)
        memory, read = self.attention.start(encoded)
        return memory, LSTMState(hidden, torch.zeros_like(hidden), read)

    def forward(
        self, inputs: Tensor, memory: Rows, state: LSTMState, hook: AttentionHook | None = None
    ) -> tuple[Tensor, LSTMState]:
        """Inputs [B, T, E] -> outputs [B, T, E] and the state after them."""
        seen: list[Tensor] = []
        watch = None if hook is None else lambda _, weights: seen.append(weights)
        bottom, *upper = (cast("nn.LSTMCell", cell) for cell in self.cells)
        from_token, from_context = torch.split(
            bottom.weight_ih, [self.input_size, bottom.weight_ih.shape[1] - self.input_size], 1
        )
        token_gates = F.linear(inputs, from_token, bottom.bias_ih + bottom.bias_hh)  # [B, T, 4 D]
        dtype = token_gates.dtype  # autocast casts what is computed from weights anew at each step, so cast it here
        weights = [torch.cat([from_context, bottom.weight_hh], 1).to(dtype)]  # [4 D, M + D]
        weights += [torch.cat([cell.weight_ih, cell.weight_hh], 1).to(dtype) for cell in upper]  # [4 D, 2 D]
        biases = [(cell.bias_ih + cell.bias_hh).to(dtype) for cell in upper]
        hidden, cells = list(state.hidden.unbind(1)), list(state.cell.unbind(1))  # L times [B, D]
        read, tops, contexts = state.read, [], []
        for gates in token_gates.unbind(1):  # [B, 4 D]
            query = hidden[-1].unsqueeze(1)  # [B, 1, D], the state before this token
            context, read = self.attention(query, memory, read, watch)  # [B, 1, M]
            context = context.squeeze(1)  # [B, M]
            gates = gates + F.linear(torch.cat([context, hidden[0].to(context.dtype)], -1), weights[0])
            hidden[0], cells[0] = lstm_step(gates, cells[0])
            for depth, bias in enumerate(biases, start=1):
                below = torch.cat([self.dropout(hidden[depth - 1]), hidden[depth]], -1)  # [B, 2 D]
                hidden[depth], cells[depth] = lstm_step(F.linear(below, weights[depth], bias), cells[depth])
            tops.append(hidden[-1])
            contexts.append(context)
        if hook is not None:
            hook(self.attention, torch.cat(seen, 2))  # [B, 1, T, S]
        parts = torch.cat([torch.stack(tops, 1), inputs, torch.stack(contexts, 1)], -1)  # [B, T, D + E + M]
        outputs = torch.unflatten(self.readout(self.dropout(parts)), -1, (-1, 2)).amax(-1)  # [B, T, E]
        return outputs, LSTMState(torch.stack(hidden, 1), torch.stack(cells, 1), read)


def lstm_step(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """New cell f * c + i * g and hidden o * tanh(cell), gates [B, 4 D] in torch's order i, f, g, o; Gers et al. 2000.

    The cell stays in its own precision (float32 under autocast), as it adds up over all steps.
    """
    take, keep, new, out = gates.chunk(4, -1)
    cell = keep.sigmoid() * cell + take.sigmoid() * new.tanh()  # [B, D]
    return out.sigmoid() * cell.tanh(), cell
