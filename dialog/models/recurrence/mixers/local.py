"""Short convolutions and token shifts, which read the inputs of the last few tokens.

Shapes: B rows, T tokens, C channels, W taps of a convolution.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Window = tuple[Tensor, ...]
"""The last inputs (x,) [B, W - 1, C]; () before all tokens, when they are zeros."""


class ShortConvolution(nn.Module):
    """y_t = silu(b + sum_j w_j * x_{t - W + 1 + j}), for each channel alone; its weights start
    uniform in +-1/sqrt(W).

    As shifted sums with a gradient of their own it takes half the time of `F.conv1d` on a CPU.
    """

    def __init__(self, channels: int, taps: int = 4, *, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(taps, channels).uniform_(-(taps**-0.5), taps**-0.5))
        self.bias = nn.Parameter(torch.zeros(channels)) if bias else None

    def forward(self, inputs: Tensor, window: Window, mask: Tensor | None) -> tuple[Tensor, Window]:
        """Map inputs [B, T, C] to outputs [B, T, C]; also return the new window."""
        extended, window = with_previous(inputs, window, mask, len(self.weight) - 1)
        sums = self.shifted_sum(extended, self.weight.to(extended.dtype))
        return F.silu(sums if self.bias is None else sums + self.bias), window

    def shifted_sum(self, inputs: Tensor, weight: Tensor) -> Tensor:
        """Return sum_j w_j * x_{t + j} [B, T, C] of x [B, T + W - 1, C] and w [W, C]."""
        sums: Tensor = _ShiftedSum.apply(inputs, weight)  # type: ignore[no-untyped-call]
        return sums


def with_previous(
    inputs: Tensor, window: Window, mask: Tensor | None, count: int
) -> tuple[Tensor, Window]:
    """Put the last ``count`` inputs before inputs [B, T, C]; return both [B, count + T, C], and the
    last ``count`` real inputs of each row.
    """
    before = (
        window[0].to(inputs.dtype)
        if window
        else inputs[:, :1].new_zeros(1).expand(len(inputs), count, inputs.shape[2])
    )
    extended = torch.cat([before, inputs], 1)
    if mask is None:
        return extended, (extended[:, inputs.shape[1] :],)
    places = mask.sum(1, keepdim=True) + torch.arange(count, device=mask.device)  # [B, count]
    last = extended.gather(1, places.unsqueeze(-1).expand(-1, -1, inputs.shape[2]))
    return extended, (last,)


class _ShiftedSum(torch.autograd.Function):
    """y_t = sum_j w_j * x_{t + j} of x [B, T + W - 1, C] and w [W, C].

    All rows are one long sequence, so that each tap is one operation; the sums that cross from one
    row to the next are not read.
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor) -> Tensor:
        taps = len(weight)
        flat = inputs.reshape(-1, inputs.shape[2])
        count = len(flat) - taps + 1
        sums = torch.empty_like(flat)
        torch.mul(flat[:count], weight[0], out=sums[:count])
        for tap in range(1, taps):
            sums[:count].addcmul_(flat[tap : tap + count], weight[tap])
        ctx.save_for_backward(inputs, weight)
        return sums.view(inputs.shape)[:, : inputs.shape[1] - taps + 1]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        inputs, weight = ctx.saved_tensors
        taps = len(weight)
        flat = inputs.reshape(-1, inputs.shape[2])
        count = len(flat) - taps + 1
        # zeros at the sums that are not read
        outer = F.pad(gradients[0], (0, 0, 0, taps - 1)).reshape(-1, inputs.shape[2])[:count]
        of_inputs = torch.zeros_like(flat)
        for tap in range(taps):
            of_inputs[tap : tap + count].addcmul_(outer, weight[tap])
        of_weight = [(outer * flat[tap : tap + count]).sum(0) for tap in range(taps)]
        return of_inputs.view(inputs.shape), torch.stack(of_weight)
