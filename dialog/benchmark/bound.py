"""Upper bound of the machine's speed: one large matrix product."""

from __future__ import annotations

import time

import torch
from torch import Tensor

DTYPES = {
    "64-true": torch.float64,
    "bf16": torch.bfloat16,
    "bfloat16": torch.bfloat16,
    "16": torch.float16,
    "float16": torch.float16,
}
"""Type of the matrix products by precision of training or generation; other precisions use float32.
"""
SECONDS = 0.5
SMALLEST = 256
LARGEST = {"cuda": 8192}
LARGEST_OF_OTHERS = 2048
REPEATS = 3


def gemm_peak(precision: str, device: str) -> float:
    """Return the FLOP/s of the fastest product of square matrices, with the threads that training
    uses.

    The matrices grow until half a second has passed, since emulated precisions are slow.
    """
    dtype = DTYPES.get(precision, DTYPES.get(precision.partition("-")[0], torch.float32))
    best = 0.0
    size = SMALLEST
    until = time.perf_counter() + SECONDS
    while not best or time.perf_counter() < until:
        left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        best = max(best, 2 * size**3 / min(_seconds(left, right) for _ in range(REPEATS)))
        size = min(2 * size, LARGEST.get(device, LARGEST_OF_OTHERS))
    return best


def _seconds(left: Tensor, right: Tensor) -> float:
    began = time.perf_counter()
    torch.mm(left, right)
    if left.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - began
