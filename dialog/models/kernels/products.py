"""Products x W' + b whose weights are laid out once: in float32, in half precision, or in int8.

All map float32 [N, I] to float32 [N, O], so that sums over time, softmax and norms keep that
precision; products in half precision keep that of rows in it.

Shapes: N rows, I inputs, O outputs.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.models.kernels.linear import mkl_is_slow
from dialog.models.kernels.private_operators import (
    has_feature,
    has_onednn_bfloat16,
    int8_linear,
    int8_weight_linear,
    onednn_linear,
    packed,
    packed_int8,
)

Product = Callable[[Tensor], Tensor]
"""From rows [N, I] to x W' + b [N, O], both in float32, or both in that of the weights."""

FEW = 8
"""Rows up to which a matrix of fewer than `LARGE` weights is multiplied by `Int8WeightProduct`."""
MEDIUM = 2**16
"""Weights of a matrix from which `Int8Product` is faster than float32 for more rows than `FEW`."""
LARGE = 2**19
"""Weights of a matrix from which `Int8Product` is faster for any number of rows."""
MULTIPLE = 16
"""The sizes of a matrix are multiples of it in `Int8WeightProduct`: its kernel reads that many
numbers at a time.
"""
LIMIT = 127
"""Largest magnitude in int8."""
ZERO = 128
"""Stands for 0 in x, which the kernels read unsigned; for signed ones oneDNN has no fast kernel of
one row.
"""


class FloatProduct:
    """x W' + b with W' stored, which is fastest for one row.

    If MKL is slow, W is also packed for the kernel of oneDNN, for several rows.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        weight = weight.float()
        self.weight = weight.t().contiguous()  # [I, O]
        self.bias = None if bias is None else bias.float()
        self.packed: Tensor | None = None
        if weight.device.type == "cpu" and mkl_is_slow():
            self.packed = packed(weight)

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return [N, O]."""
        if self.packed is not None and inputs.shape[0] > 1:
            return onednn_linear(inputs, self.packed, self.bias)
        if self.bias is None:
            return torch.mm(inputs, self.weight)
        return torch.addmm(self.bias, inputs, self.weight)


class HalfProduct:
    """x W' + b in bfloat16 or float16, summed in float32 and rounded once.

    On a CPU, W is packed once for the kernel of oneDNN; ``F.linear`` packs it at each call.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight = weight
        self.bias = bias
        self.packed: Tensor | None = None
        is_cpu = weight.device.type == "cpu" and weight.dtype is torch.bfloat16
        if is_cpu and has_onednn_bfloat16():
            self.packed = packed(weight)

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return [N, O] in the precision of the inputs."""
        return self.half(inputs).to(inputs.dtype)

    def half(self, inputs: Tensor) -> Tensor:
        """Return [N, O] in half precision."""
        low = inputs.to(self.weight.dtype)
        if self.packed is None:
            return F.linear(low, self.weight, self.bias)
        return onednn_linear(low, self.packed, self.bias)


class Int8Product:
    """x W' + b with int8 factors and sums in int32: one scale for each row of W, and for each row
    of x (dynamic).

    The result of a row does not depend on the other rows.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        weight = weight.float()
        scales = _scales(weight)  # [O, 1]
        rounded = (weight / scales).round_().to(torch.int8)
        self.weight = packed_int8(rounded)
        self.scales = scales.squeeze(1)
        self.zeros = torch.zeros(len(weight), dtype=torch.long)
        self.bias = None if bias is None else bias.float()

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return [N, O]."""
        scales = _scales(inputs)  # [N, 1]
        shifted = (inputs / scales).add_(ZERO).round_().to(torch.uint8)
        product = int8_linear(shifted, ZERO, self.weight, self.scales, self.zeros)
        return (
            product.mul_(scales) if self.bias is None else torch.addcmul(self.bias, product, scales)
        )


class Int8WeightProduct:
    """x W' + b with W in int8, one scale for each of its rows; x and x W' are rounded to bfloat16.

    The result of a row does not depend on the other rows.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        if weight.shape[0] % MULTIPLE or weight.shape[1] % MULTIPLE:
            raise ValueError(
                f"sizes {tuple(weight.shape)} of a matrix are not multiples of {MULTIPLE}"
            )
        weight = weight.float()
        scales = _scales(weight).bfloat16()  # [O, 1]
        self.weight = (weight / scales).round_().to(torch.int8)
        self.scales = scales.squeeze(1)
        self.bias = None if bias is None else bias.float()

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return [N, O]."""
        product = int8_weight_linear(inputs.bfloat16(), self.weight, self.scales)
        return product.float() if self.bias is None else product + self.bias  # a sum in float32


class ProductByRows:
    """x W' + b by one product for up to `FEW` rows, and by another one for more."""

    def __init__(self, few: Product, many: Product) -> None:
        self.few = few
        self.many = many

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return [N, O]."""
        return self.few(inputs) if inputs.shape[0] <= FEW else self.many(inputs)


def has_int8(device: str) -> bool:
    """Return whether a type of device multiplies int8 exactly: a CPU with VNNI, whose sums do not
    saturate.
    """
    return device == "cpu" and (has_feature("avx512_vnni") or has_feature("amx_tile"))


def product(weight: Tensor, bias: Tensor | None = None, *, int8: bool = False) -> Product:
    """Return the product of a matrix [O, I], and a bias [O], in the precision of the weights or in
    int8.

    In int8, a matrix of fewer than `MEDIUM` weights multiplies more than `FEW` rows in float32.
    """
    weight = weight.detach()
    bias = None if bias is None else bias.detach()
    if int8:
        many = Int8Product(weight, bias) if weight.numel() >= MEDIUM else FloatProduct(weight, bias)
        if weight.numel() >= LARGE or weight.shape[0] % MULTIPLE or weight.shape[1] % MULTIPLE:
            return many
        return ProductByRows(Int8WeightProduct(weight, bias), many)
    return HalfProduct(weight, bias) if weight.dtype.itemsize < 4 else FloatProduct(weight, bias)


def joined(layers: list[nn.Linear], int8: bool) -> Product:
    """Return one product for several layers with the same input."""
    has_bias = layers[0].bias is not None
    bias = torch.cat([layer.bias for layer in layers]) if has_bias else None
    return product(torch.cat([layer.weight for layer in layers]), bias, int8=int8)


def _scales(rows: Tensor) -> Tensor:
    """Return the scale of each row [.., 1], so that its largest element becomes 127."""
    return rows.abs().amax(1, keepdim=True).div_(LIMIT).clamp_min_(torch.finfo(torch.float32).tiny)
