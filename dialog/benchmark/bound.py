"""What the machine could do at best: the speed of one large matrix product."""

from __future__ import annotations

import time

import torch

DTYPES = {"64-true": torch.float64, "bf16": torch.bfloat16, "16": torch.float16}
"""In which type the products of a precision are; the others' are in float32."""
SECONDS = 0.5
SIZES = {"cuda": 8192}
SIZE = 2048


def gemm_peak(precision: str, device: str) -> float:
    """FLOP/s of the fastest of several products of square matrices, with as many threads as training has."""
    dtype = DTYPES.get(precision, DTYPES.get(precision.partition("-")[0], torch.float32))
    size = SIZES.get(device, SIZE)
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    best, until = float("inf"), time.perf_counter() + SECONDS
    runs = 0
    while runs < 3 or time.perf_counter() < until:
        began = time.perf_counter()
        torch.mm(left, right)
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - began)
        runs += 1
    return 2 * size**3 / best
