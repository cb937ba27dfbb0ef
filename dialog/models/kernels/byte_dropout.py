"""Dropout on a CPU that draws 64 random bits for four numbers and keeps one byte for each number.

Formula: ``F.dropout``: 0 with probability p, else times 1 / (1 - p); p is rounded to a multiple of 2^-16. Seeds and
saved generator states work as in torch.

Gain: GAIN_DROPOUT

Test: tests/models/kernels/test_byte_dropout.py compares rate, scale, independence and gradient with the formula.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

LEVELS = 2**16
"""Values of 16 random bits."""


def byte_dropout(numbers: Tensor, probability: float) -> Tensor:
    """Apply dropout to numbers of any shape; on other devices, and for p that rounds to 0 or 1, by ``F.dropout``."""
    dropped = round(probability * LEVELS)
    if numbers.device.type != "cpu" or not 0 < dropped < LEVELS:
        return F.dropout(numbers, probability)
    result: Tensor = _ByteDropout.apply(numbers, dropped)  # type: ignore[no-untyped-call]
    return result


class _ByteDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, numbers: Tensor, dropped: int) -> Tensor:  # noqa: ANN401 - torch's context
        count = numbers.numel()
        bits = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        levels = bits.view(torch.int16)[:count].view(numbers.shape)
        kept = levels >= dropped - LEVELS // 2
        ctx.save_for_backward(kept)
        ctx.scale = LEVELS / (LEVELS - dropped)
        scaled: Tensor = numbers * ctx.scale
        return scaled.mul_(kept)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401 - torch's context
        (kept,) = ctx.saved_tensors
        return (gradient * ctx.scale) * kept, None
