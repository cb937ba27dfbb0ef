"""Elementwise linear recurrence: a scan.

Shapes: B rows, T tokens, W width, N blocks of C tokens.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dialog.models.recurrence.kernels.recurrence import Memory, Recurrence, Signals, masked

SHORT = 8
"""Number of tokens up to which a plain loop is as fast."""


class Scan(Recurrence):
    """h_t = a_t * h_{t-1} + x_t; signals (a, x), each [B, T, W], memory (h,) [B, W].

    `chunk` needs about 2 sqrt(T) steps, of which each is one operation on many tokens, and divides
    nothing. A scan of logarithms, as published for minGRU (Heinsen 2023), takes three times as
    long, allows positive values only, and is a thousand times less exact in float32 at 4,096
    tokens.
    """

    def start(self, signals: Signals) -> Memory:
        """Return zeros."""
        return (torch.zeros_like(signals[1][:, 0]),)

    def step(self, signals: Signals, memory: Memory) -> tuple[Tensor, Memory]:
        """Advance by one token."""
        decay, added = signals
        state = decay * memory[0] + added
        return state, (state,)

    def chunk(
        self, signals: Signals, memory: Memory = (), mask: Tensor | None = None
    ) -> tuple[Tensor, Memory]:
        """Advance by T tokens; padding has decay 1 and adds 0."""
        decay, added = signals
        (first,) = memory or self.start(signals)
        states: Tensor = _Scanned.apply(masked(decay, mask, 1.0), masked(added, mask), first)  # type: ignore[no-untyped-call]
        return states, (states[:, -1],)


class _Scanned(torch.autograd.Function):
    """All h_t; the gradient G_t = dL/dh_t + a_{t+1} G_{t+1} is a scan from the end."""

    @staticmethod
    def forward(ctx: Any, decay: Tensor, added: Tensor, first: Tensor) -> Tensor:
        states = scan(decay, added, first)
        ctx.save_for_backward(decay, states, first)
        return states

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        decay, states, first = ctx.saved_tensors
        (outer,) = gradients
        following = torch.cat([decay[:, 1:], torch.zeros_like(decay[:, :1])], 1).flip(1)
        gradient = scan(following, outer.flip(1), torch.zeros_like(first)).flip(1)
        previous = torch.cat([first.unsqueeze(1), states[:, :-1]], 1)
        return gradient * previous, gradient, decay[:, 0] * gradient[:, 0]


def scan(decay: Tensor, added: Tensor, first: Tensor) -> Tensor:
    """Return all h_t [B, T, W] of decays and inputs [B, T, W] from h_0 [B, W], in two levels.

    First the scan within each block from 0, and the products of its decays; then the states that
    enter the blocks; then their part in each h_t.
    """
    tokens = added.shape[1]
    if tokens <= SHORT:
        states = []
        for factor, summand in zip(decay.unbind(1), added.unbind(1), strict=True):
            first = torch.addcmul(summand, factor, first)
            states.append(first)
        return torch.stack(states, 1)
    block = math.isqrt(tokens - 1) + 1
    missing = -tokens % block
    # copies, since the loops below write into them
    products = F.pad(decay, (0, 0, 0, missing)) if missing else decay.clone()
    sums = F.pad(added, (0, 0, 0, missing)) if missing else added.clone()
    products, sums = (
        torch.unflatten(each, 1, (-1, block)) for each in (products, sums)
    )  # [B, N, C, W]
    for place in range(1, block):
        sums[:, :, place].addcmul_(products[:, :, place], sums[:, :, place - 1])
        products[:, :, place].mul_(products[:, :, place - 1])
    entering = []
    for factor, summand in zip(products[:, :, -1].unbind(1), sums[:, :, -1].unbind(1), strict=True):
        entering.append(first)
        first = torch.addcmul(summand, factor, first)
    sums.addcmul_(products, torch.stack(entering, 1).unsqueeze(2))
    return sums.flatten(1, 2)[:, :tokens]
