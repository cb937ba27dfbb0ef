"""Gated linear attention.

Shapes: B rows, T tokens, D size of the model, W width, H heads, K = W / 2H, V = W / H widths of a
head's keys and values.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.models.contracts import AttentionHook
from dialog.models.recurrence.kernels.recurrence import exact
from dialog.models.recurrence.kernels.vector_decay import VectorDecay
from dialog.models.recurrence.mixers.gated_output import GatedOutput
from dialog.models.recurrence.mixers.mixer import (
    START,
    Mixer,
    MixerState,
    check_heads,
    projection,
)

RANK = 16
"""Rank of the decay's projection, and the number by which its logarithm is divided."""
LOWEST = -2.5
"""Lowest logarithm of a decay. Without this limit chunks would overflow; the gate must be below
sigmoid(-40) to reach it.
"""


class GLA(Mixer):
    """Gated linear attention; Yang et al. 2023, 4.

    S_t = diag(exp g_t) S_{t-1} + k_t v_t', o_t = S_t' q_t / sqrt(K) with g = log(sigmoid(W_2 W_1 x
    + b)) / 16. Output W_o (norm(o) * silu(W_g x)); state [H, K, V].
    """

    def __init__(self, size: int, width: int, heads: int, *, chunk: int = 32) -> None:
        super().__init__()
        check_heads(width, heads, 2)
        self.query, self.key = (projection(size, width // 2) for _ in range(2))
        self.value = projection(size, width)
        self.decay = nn.Sequential(projection(size, RANK), projection(RANK, width // 2, bias=True))
        self.output = GatedOutput(size, width)
        self.heads = heads
        self.recurrence = VectorDecay(chunk, lowest=LOWEST)

    def forward(
        self,
        inputs: Tensor,
        state: MixerState = START,
        mask: Tensor | None = None,
        hook: AttentionHook | None = None,
    ) -> tuple[Tensor, MixerState]:
        """Map inputs [B, T, D] to [B, T, D]."""
        query, key, value, decay = (
            torch.unflatten(layer(inputs), -1, (self.heads, -1))
            for layer in (self.query, self.key, self.value, self.decay)
        )
        decay = (F.logsigmoid(exact(decay)) / RANK).clamp(min=LOWEST)
        signals = (query * key.shape[-1] ** -0.5, key, value, decay)
        mixed, memory = self.mix(self.recurrence, signals, state, mask, hook)
        return self.output(mixed, inputs), MixerState(memory)
