"""Products in float32 by oneDNN where MKL is slow; `Linear` is the layer of all models.

Formula: `F.linear` and `torch.addmm`. Gain: on an AMD EPYC with AVX-512, one thread scores
references with a Transformer in 0.66 and with an LSTM in 0.86 of the time (benchmarks/README.md,
"Evaluation"). On Intel's processors MKL is as fast.

Test: ``test_linear_is_the_formula`` in tests/models/kernels/test_linear.py.

Shapes: N rows, I inputs, O outputs.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.models.kernels.private_operators import has_feature, onednn_linear

ROWS = 16
"""Rows from which oneDNN is faster also for small matrices that are not `packed`."""


class Linear(nn.Linear):
    """x W' + b [.., O] for x [.., I]."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the product."""
        if input.numel() >= ROWS * self.in_features and _is_faster(input, self.weight):
            return onednn_linear(input, self.weight, self.bias)
        return super().forward(input)


def linear(inputs: Tensor, weight: Tensor) -> Tensor:
    """Return x W' [N, O] for x [N, I] and W [O, I]."""
    return onednn_linear(inputs, weight) if _is_faster(inputs, weight) else F.linear(inputs, weight)


def affine(bias: Tensor, inputs: Tensor, weight: Tensor) -> Tensor:
    """Return b + x W' [N, O] for b [O] or [N, O], x [N, I] and W [O, I]."""
    if _is_faster(inputs, weight):
        return onednn_linear(inputs, weight).add_(bias)
    return torch.addmm(bias, inputs, weight.t())


def _is_faster(inputs: Tensor, weight: Tensor) -> bool:
    """Return whether oneDNN multiplies: in float32, without a gradient, which its operator lacks,
    where MKL is slow.
    """
    if torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or torch.compiler.is_compiling():
        return False
    return (
        inputs.dtype is weight.dtype is torch.float32
        and inputs.device.type == "cpu"
        and mkl_is_slow()
    )


@cache
def mkl_is_slow() -> bool:
    """Return whether torch multiplies float32 by MKL on an AMD processor, where MKL has only AVX2
    kernels.

    oneDNN is up to 4 times as fast there, and slower than MKL on Intel's.
    """
    has_both = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return has_both and _is_amd()


@cache
def has_fast_bfloat16() -> bool:
    """Return whether the CPU multiplies bfloat16 faster than float32 and int8: by AMX, or by
    AVX512-BF16 of AMD.

    On an Intel Xeon with AVX512-BF16 and without AMX, bfloat16 has 0.6 times the speed of float32.
    """
    return has_feature("amx_tile") or (has_feature("avx512_bf16") and _is_amd())


@cache
def _is_amd() -> bool:
    with suppress(OSError):
        return "AuthenticAMD" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    return False
