"""Gated DeltaNet.

Shapes: B rows, T tokens, D size of the model, W width, H heads, K = W / 2H, V = W / H widths of a
head's keys and values.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.models.contracts import AttentionHook
from dialog.models.recurrence.kernels.delta_rule import DeltaRule
from dialog.models.recurrence.kernels.recurrence import exact
from dialog.models.recurrence.mixers.gated_output import GatedOutput
from dialog.models.recurrence.mixers.local import ShortConvolution
from dialog.models.recurrence.mixers.mamba2 import first_step_bias
from dialog.models.recurrence.mixers.mixer import (
    START,
    Mixer,
    MixerState,
    check_heads,
    projection,
)


class GatedDelta(Mixer):
    """Gated DeltaNet; Yang, Kautz & Hatamizadeh 2024, 3.

    S = exp(g_t) S_{t-1}, S_t = S + b_t k_t (v_t - S' k_t)', o_t = S_t' q_t / sqrt(K) with |q| = |k|
    = 1, b = sigmoid(W_b x), g = -exp(A) softplus(W_a x + bias). Output W_o (norm(o) * silu(W_g x));
    state [H, K, V] and the window [3, 2 W].

    q, k, v are silu(conv(W x)) of a convolution over 4 tokens. With ``negative_eigenvalues`` b is
    in (0, 2), so that a token can reverse a direction of the state: then one layer counts modulo 2
    (Grazzi et al. 2024).
    """

    def __init__(
        self,
        size: int,
        width: int,
        heads: int,
        *,
        negative_eigenvalues: bool = False,
        chunk: int = 64,
    ) -> None:
        super().__init__()
        check_heads(width, heads, 2)
        self.sizes = [width // 2, width // 2, width]
        self.local = projection(size, sum(self.sizes))  # q, k, v
        self.convolution = ShortConvolution(sum(self.sizes))
        self.rate = projection(size, heads)
        self.decay = projection(size, heads, bias=True)
        self.log_rate = nn.Parameter(torch.empty(heads).uniform_(1, 16).log())  # A
        self.output = GatedOutput(size, width)
        self.heads = heads
        self.largest = 2.0 if negative_eigenvalues else 1.0
        self.recurrence = DeltaRule(chunk)
        with torch.no_grad():
            self.decay.bias.copy_(first_step_bias(heads))

    def forward(
        self,
        inputs: Tensor,
        state: MixerState = START,
        mask: Tensor | None = None,
        hook: AttentionHook | None = None,
    ) -> tuple[Tensor, MixerState]:
        """Map inputs [B, T, D] to [B, T, D]."""
        local, window = self.convolution(self.local(inputs), state.window, mask)
        query, key, value = (
            torch.unflatten(each, -1, (self.heads, -1))
            for each in torch.split(exact(local), self.sizes, -1)
        )
        query, key = (F.normalize(each, dim=-1) for each in (query, key))
        decay = -exact(self.log_rate).exp() * F.softplus(exact(self.decay(inputs)))  # [B, T, H]
        rate = self.largest * exact(self.rate(inputs)).sigmoid()
        signals = (query * key.shape[-1] ** -0.5, key, value, decay, rate)
        mixed, memory = self.mix(self.recurrence, signals, state, mask, hook)
        return self.output(mixed, inputs), MixerState(memory, window)
