"""mLSTM, the matrix memory of xLSTM.

Shapes: B rows, T tokens, D size of the model, W width, H heads, K = W / 2H, V = W / H widths of a
head's keys and values.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dialog.models.contracts import AttentionHook
from dialog.models.recurrence.kernels.recurrence import exact
from dialog.models.recurrence.kernels.scalar_decay import ExponentialGates
from dialog.models.recurrence.mixers.gated_output import GatedOutput
from dialog.models.recurrence.mixers.mixer import (
    START,
    Mixer,
    MixerState,
    check_heads,
    projection,
)

CAP = 15.0
"""Largest preactivation of a gate: 15 tanh(x / 15)."""


class MLSTM(Mixer):
    """mLSTM of xLSTM, a matrix memory with exponential input gates; Beck et al. 2024, 2.3.

    S_t = f S_{t-1} + i k_t v_t', n_t = f n_{t-1} + i k_t, h_t = S_t' q_t / max(|n_t' q_t|, 1) with
    f = sigmoid(W_f x), i = exp(W_i x). Output W_o (norm(h) * sigmoid(W_g x)); state [H, K, V] with
    normaliser [H, K] and maximum [H].

    Layers are those of xLSTM 7B (Beck et al. 2025, 3): no convolution, capped gates. Biases of the
    forget gates start between 3 and 6.
    """

    def __init__(self, size: int, width: int, heads: int, *, chunk: int = 64) -> None:
        super().__init__()
        check_heads(width, heads, 2)
        self.query, self.key = (projection(size, width // 2) for _ in range(2))
        self.value = projection(size, width)
        self.gates = projection(size, 2 * heads, bias=True)
        self.output = GatedOutput(size, width, torch.sigmoid)
        self.heads = heads
        self.recurrence = ExponentialGates(chunk)
        with torch.no_grad():
            self.gates.weight.zero_()
            self.gates.bias[heads:] = torch.linspace(3, 6, heads)

    def forward(
        self,
        inputs: Tensor,
        state: MixerState = START,
        mask: Tensor | None = None,
        hook: AttentionHook | None = None,
    ) -> tuple[Tensor, MixerState]:
        """Map inputs [B, T, D] to [B, T, D]."""
        query, key, value = (
            torch.unflatten(layer(inputs), -1, (self.heads, -1))
            for layer in (self.query, self.key, self.value)
        )
        gates = CAP * torch.tanh(exact(self.gates(inputs)) / CAP)
        enter, forget = gates.chunk(2, -1)  # [B, T, H]
        signals = (query, key * key.shape[-1] ** -0.5, value, enter, F.logsigmoid(forget))
        mixed, memory = self.mix(self.recurrence, signals, state, mask, hook)
        return self.output(mixed, inputs), MixerState(memory)
