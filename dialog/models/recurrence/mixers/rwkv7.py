"""RWKV-7.

Shapes: B rows, T tokens, D size of the model, W width, H heads, K = W / H width of a head.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.models.contracts import AttentionHook
from dialog.models.recurrence.kernels.delta_rule import VectorDeltaRule
from dialog.models.recurrence.kernels.recurrence import exact
from dialog.models.recurrence.mixers.local import with_previous
from dialog.models.recurrence.mixers.mixer import (
    START,
    Mixer,
    MixerState,
    check_heads,
    projection,
)

LOWEST = -math.exp(-0.5)
"""Lowest logarithm of a decay."""
EPS = 64e-5
"""Of the norm of each head, as published."""
INPUTS = 6
"""Receptance, decay, key, value, rate and gate, each with its own shift."""


class RWKV7(Mixer):
    """RWKV-7; Peng et al. 2025, 4.

    S_t = diag(w_t) S_{t-1} - (a_t * l_t) (S_{t-1}' l_t)' + k_t v_t', y_t = S_t' r_t with l the key
    of length 1 that is removed and a its rate. Output W_o ((norm(y) + (r' (k * p)) v) * gate);
    state [H, K, K] and the last input [1, D].

    Each of the six inputs is x_t + mu * (x_{t-1} - x_t); decay, rate and gate have low rank. This
    is the time mixing of the first layer: later ones mix its value into theirs, which no layer of
    its own can do, and the feed-forward network is that of all models here.
    """

    def __init__(self, size: int, width: int, heads: int, *, chunk: int = 64) -> None:
        super().__init__()
        check_heads(width, heads)
        rank = max(8, size // 8)
        self.shift = nn.Parameter(torch.linspace(1, 0, size).expand(INPUTS, size).clone())  # mu
        self.receptance, self.key, self.value = (projection(size, width) for _ in range(3))
        self.decay, self.rate = (
            nn.Sequential(projection(size, rank), activation, projection(rank, width, bias=True))
            for activation in (nn.Tanh(), nn.Identity())
        )
        self.gate = nn.Sequential(
            projection(size, 2 * rank), nn.Sigmoid(), projection(2 * rank, width)
        )
        self.removed = nn.Parameter(torch.full((width,), 0.71))  # scales the keys l
        self.entering = nn.Parameter(torch.full((width,), 1.02))  # part of the rate in the keys k
        self.bonus = nn.Parameter(torch.full((width,), -0.04))  # p
        self.norm = nn.GroupNorm(heads, width, eps=EPS)
        self.output = projection(width, size)
        self.heads = heads
        self.recurrence = VectorDeltaRule(chunk, lowest=LOWEST)
        with torch.no_grad():  # from long to short memories
            self.decay[-1].get_parameter("bias").copy_(6 * torch.linspace(0, 1, width) - 6)

    def forward(
        self,
        inputs: Tensor,
        state: MixerState = START,
        mask: Tensor | None = None,
        hook: AttentionHook | None = None,
    ) -> tuple[Tensor, MixerState]:
        """Map inputs [B, T, D] to [B, T, D]."""
        extended, window = with_previous(inputs, state.window, mask, 1)
        difference = extended[:, :-1] - inputs
        shifted = (inputs + mu * difference for mu in self.shift)
        layers = (self.receptance, self.decay, self.key, self.value, self.rate, self.gate)
        read, decay, key, value, rate, gate = (
            exact(layer(each)) for layer, each in zip(layers, shifted, strict=True)
        )
        decay = LOWEST * decay.sigmoid()
        rate = rate.sigmoid()
        removed = F.normalize(self._heads(key * self.removed), dim=-1)
        key = key * (1 + (rate - 1) * self.entering)
        read, key, value, decay, rate = map(self._heads, (read, key, value, decay, rate))
        signals = (read, key, value, decay, -removed, removed * rate)
        mixed, memory = self.mix(self.recurrence, signals, state, mask, hook)
        bonus = (read * key * self._heads(self.bonus)).sum(-1, keepdim=True) * value
        rows = mixed.flatten(-2).flatten(0, 1)  # [B T, W]
        weight, bias = (exact(each) for each in (self.norm.weight, self.norm.bias))
        normed = F.group_norm(rows, self.heads, weight, bias, EPS).view(*inputs.shape[:2], -1)
        outputs = ((normed + bonus.flatten(-2)) * gate).to(inputs.dtype)
        return self.output(outputs), MixerState(memory, window)

    def _heads(self, features: Tensor) -> Tensor:
        """[.., W] as [.., H, K]."""
        return torch.unflatten(features, -1, (self.heads, -1))
