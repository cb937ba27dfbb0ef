"""Mamba-2: state space duality.

Shapes: B rows, T tokens, D size of the model, W width, H heads, N state size, P = W / H.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.models.contracts import AttentionHook
from dialog.models.recurrence.kernels.recurrence import exact
from dialog.models.recurrence.kernels.scalar_decay import ScalarDecay
from dialog.models.recurrence.mixers.gated_output import HeadNorm
from dialog.models.recurrence.mixers.local import ShortConvolution
from dialog.models.recurrence.mixers.mixer import (
    START,
    Mixer,
    MixerState,
    check_heads,
    projection,
)

STEPS = (0.001, 0.1)
"""Range of the first step sizes, equally spread on a logarithmic scale."""


class Mamba2(Mixer):
    """Mamba-2; Dao & Gu 2024, 6 and 7.

    S_t = exp(-d_t exp(A)) S_{t-1} + b_t (d_t u_t)', y_t = S_t' c_t + e u_t with d_t = softplus(W_d
    x_t + bias). Output W_o norm(y * silu(W_z x)); state [H, N, P] and the window [3, W + 2 N] of
    the convolution.

    u [H, P], b and c [N], the same for all heads, are silu(conv(W x)) of a convolution over 4
    tokens; A, e and the bias are learned for each head.
    """

    def __init__(
        self, size: int, width: int, heads: int, *, state_size: int = 128, chunk: int = 64
    ) -> None:
        super().__init__()
        check_heads(width, heads)
        if state_size < 1:
            raise ValueError(f"state_size must be at least 1, not {state_size}")
        self.sizes = [width, state_size, state_size]
        self.local = projection(size, sum(self.sizes))  # u, b, c
        self.convolution = ShortConvolution(sum(self.sizes), bias=True)
        self.step_size = projection(size, heads, bias=True)
        self.gate = projection(size, width)
        self.norm = HeadNorm(width)  # over the whole width, as published
        self.output = projection(width, size)
        self.log_rate = nn.Parameter(torch.empty(heads).uniform_(1, 16).log())  # A
        self.skip = nn.Parameter(torch.ones(heads))  # e
        self.heads = heads
        self.recurrence = ScalarDecay(chunk)
        with torch.no_grad():
            self.step_size.bias.copy_(first_step_bias(heads))

    def forward(
        self,
        inputs: Tensor,
        state: MixerState = START,
        mask: Tensor | None = None,
        hook: AttentionHook | None = None,
    ) -> tuple[Tensor, MixerState]:
        """Map inputs [B, T, D] to [B, T, D]."""
        local, window = self.convolution(self.local(inputs), state.window, mask)
        values, key, query = torch.split(exact(local), self.sizes, -1)
        values = torch.unflatten(values, -1, (self.heads, -1))  # [B, T, H, P]
        steps = F.softplus(exact(self.step_size(inputs))).unsqueeze(-1)  # [B, T, H, 1]
        decay = -steps.squeeze(-1) * exact(self.log_rate).exp()
        signals = (query.unsqueeze(2), key.unsqueeze(2), values * steps, decay)
        mixed, memory = self.mix(self.recurrence, signals, state, mask, hook)
        mixed = (mixed + values * self.skip.unsqueeze(-1)).flatten(-2)  # [B, T, W]
        gate = self.gate(inputs)
        normed = self.norm((mixed * F.silu(exact(gate))).unsqueeze(-2))
        return self.output(normed.to(gate.dtype)), MixerState(memory, window)


def first_step_bias(heads: int) -> Tensor:
    """Return biases [H] for which softplus gives step sizes drawn from `STEPS`."""
    steps = torch.empty(heads).uniform_(*map(math.log, STEPS)).exp()
    return steps + torch.log(-torch.expm1(-steps))
