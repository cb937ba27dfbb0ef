"""Retention.

Shapes: B rows, T tokens, D size of the model, W width, H heads, K = W / 2H, V = W / H widths of a
head's keys and values.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dialog.models.contracts import AttentionHook
from dialog.models.recurrence.kernels.recurrence import exact
from dialog.models.recurrence.kernels.scalar_decay import ScalarDecay
from dialog.models.recurrence.mixers.gated_output import GatedOutput
from dialog.models.recurrence.mixers.mixer import (
    START,
    Mixer,
    MixerState,
    check_heads,
    projection,
)


class RetNet(Mixer):
    """Retention; Sun et al. 2023, 2.

    S_t = c S_{t-1} + k_t v_t', o_t = S_t' q_t / sqrt(K) with the constant decay c = 1 - 2^(-5-h) of
    head h, and q, k turned by their position as `RotaryPositions` does. Output W_o (norm(o) *
    silu(W_g x)); state [H, K, V] and the position.
    """

    def __init__(self, size: int, width: int, heads: int, *, chunk: int = 64) -> None:
        super().__init__()
        check_heads(width, heads, 4)
        self.query, self.key = (projection(size, width // 2) for _ in range(2))
        self.value = projection(size, width)
        self.output = GatedOutput(size, width)
        self.heads = heads
        self.recurrence = ScalarDecay(chunk)

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
        rows, tokens = inputs.shape[:2]
        offset = (
            state.window[0]
            if state.window
            else torch.zeros(rows, 1, dtype=torch.long, device=inputs.device)
        )
        positions = offset + torch.arange(tokens, device=inputs.device)  # [B, T]
        query, key = (turned(exact(each), positions) for each in (query, key))
        slowness = torch.arange(self.heads, device=inputs.device, dtype=query.dtype)
        decay = torch.log1p(-(2.0 ** (-5 - slowness))).expand(rows, tokens, -1)
        signals = (query * key.shape[-1] ** -0.5, key, value, decay)
        mixed, memory = self.mix(self.recurrence, signals, state, mask, hook)
        after = offset + (tokens if mask is None else mask.sum(1, keepdim=True))
        return self.output(mixed, inputs), MixerState(memory, (after,))


def turned(heads: Tensor, positions: Tensor) -> Tensor:
    """Turn the pairs of features of heads [B, T, H, K] by angles t / 10000^(2i / K) of their
    positions t [B, T].
    """
    width = heads.shape[-1]
    exponents = torch.arange(0, width, 2, device=heads.device, dtype=heads.dtype) / width
    angles = (positions.unsqueeze(-1) * 1e4**-exponents).unsqueeze(2)  # [B, T, 1, K / 2]
    cosine = angles.cos()
    sine = angles.sin()
    even = heads[..., 0::2]
    odd = heads[..., 1::2]
    return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1).flatten(-2)
