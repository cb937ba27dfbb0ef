"""Bahdanau's decoder prepared for generation.

Formula: `BahdanauDecoder.forward` with `AdditiveScorer`. Each step is one product per layer for all gates, one for the
query and one for the readout; the rows of a beam share their source's keys and values.

Shapes: B rows, N sources, K = B / N rows of a source, S source tokens, T target tokens, E embedding size, M memory
size, D hidden size, Q key width.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from dialog.models.attention.attention import AttentionMemory
from dialog.models.contracts import AttentionHook, Decoder, Encoded, meant_for
from dialog.models.inference.products import product
from dialog.models.inference.shared import SharedRows, additive_mask
from dialog.models.recurrent.bahdanau import BahdanauDecoder, BahdanauState
from dialog.models.recurrent.stack import StackState
from dialog.models.state import Rows

BLOCK = 2**17
"""Numbers in a block of energies on a CPU: it stays in the cache of a core."""


class PreparedBahdanau(Decoder):
    """Decoder with additive attention; float32 states, products in the precision of the weights or in int8."""

    pointer = None

    def __init__(self, decoder: BahdanauDecoder, *, int8: bool) -> None:
        super().__init__()
        scorer = decoder.attention.additive
        assert scorer is not None
        self.own_dropout = decoder.own_dropout
        self.original = decoder
        self.cell = decoder.stack.cell
        self.energy = scorer.energy.weight.detach().float().squeeze(0)  # [Q]
        self.query = product(scorer.query.weight, int8=int8)
        self.gates = [_gates(decoder, layer, int8) for layer in decoder.stack.layers]
        self.readout = product(decoder.readout.weight, decoder.readout.bias, int8=int8)

    def start(self, encoded: Encoded) -> tuple[SharedRows, BahdanauState]:
        """Return the source's keys, values and mask, and s_0."""
        memory, state = self.original.start(encoded)
        assert isinstance(memory, AttentionMemory)
        values = memory.values.float().masked_fill(~memory.mask.unsqueeze(-1), 0.0)
        shared = SharedRows((memory.keys.float(), values, additive_mask(memory.mask, torch.float32)))
        stack = state.stack
        return shared, BahdanauState(StackState(stack.hidden.float(), stack.cell_state.float(), ()), Rows())

    def forward(
        self, inputs: Tensor, memory: SharedRows, state: BahdanauState, hook: AttentionHook | None = None
    ) -> tuple[Tensor, BahdanauState]:
        """Map inputs [B, T, E] to outputs [B, T, E]."""
        hook = meant_for(hook, self.original.attention)
        hidden, cells = list(state.stack.hidden.unbind(1)), list(state.stack.cell_state.unbind(1))
        outputs, seen = [], []
        for token in inputs.float().unbind(1):  # [B, E]
            weights = self._weights(hidden[-1], memory)  # [N, K, S]
            seen.append(weights)
            context = torch.bmm(weights, memory.parts[1]).flatten(0, 1)  # [B, M]
            entering: tuple[Tensor, ...] = (token, context)
            for depth, gates in enumerate(self.gates):
                preactivations = gates(torch.cat((*entering, hidden[depth]), 1))
                hidden[depth], cells[depth] = self.cell.step(preactivations, hidden[depth], cells[depth])
                entering = (hidden[depth],)
            pairs = self.readout(torch.cat((hidden[-1], token, context), 1))  # [B, 2 E]
            outputs.append(pairs.view(len(pairs), -1, 2).amax(2))
        if hook is not None:
            hook(self.original.attention, torch.stack(seen, 2).flatten(0, 1).unsqueeze(1))  # [B, 1, T, S]
        stack = StackState(torch.stack(hidden, 1), torch.stack(cells, 1), ())
        return torch.stack(outputs, 1), BahdanauState(stack, state.attention)

    def _weights(self, top: Tensor, memory: SharedRows) -> Tensor:
        """Return the attention weights [N, K, S] of states [B, D]."""
        keys, _, mask = memory.parts
        query = self.query(top).view(len(keys), memory.copies, 1, -1)  # [N, K, 1, Q]
        energies = query.new_empty(len(keys), memory.copies, keys.shape[1])  # [N, K, S]
        rows = len(keys) if keys.device.type != "cpu" else max(1, BLOCK // max(1, keys[0].numel() * memory.copies))
        for start in range(0, len(keys), rows):
            block = slice(start, start + rows)
            mixed = (query[block] + keys[block].unsqueeze(1)).tanh_()  # [n, K, S, Q]
            torch.mv(mixed.view(-1, mixed.shape[-1]), self.energy, out=energies[block].view(-1))
        return energies.add_(mask.unsqueeze(1)).softmax(-1)


def _gates(decoder: BahdanauDecoder, layer: Any, int8: bool) -> Any:  # noqa: ANN401 - nn.LSTM or nn.GRU
    """Return the product [W U] [x; h] + b of a layer [4 D, .. + D]."""
    cell = decoder.stack.cell
    weight = torch.cat([cell.from_inputs(layer.weight_ih_l0), cell.from_hidden(layer.weight_hh_l0)], 1)
    return product(weight, cell.from_inputs(layer.bias_ih_l0) + cell.from_hidden(layer.bias_hh_l0), int8=int8)


def supports_recurrent(decoder: nn.Module) -> TypeGuard[BahdanauDecoder]:
    """Return whether a decoder is Bahdanau's with additive attention."""
    return type(decoder) is BahdanauDecoder and decoder.attention.additive is not None
