"""Private operators of torch, each with a fallback by public ones; no other file uses one.

A later version of torch may lack a private operator, or change its arguments. Each is looked up by
its schema when it is first used; if torch has no operator of this schema, the fallback computes the
same up to rounding.

Test: ``test_fallback_is_the_operator`` in tests/models/kernels/test_private_operators.py.

Shapes: N rows, I inputs, O outputs, B sequences, S steps, D hidden width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

LINEAR = (
    "mkldnn::_linear_pointwise(Tensor X, Tensor W, Tensor? B, str attr, Scalar?[] scalars, str?"
    " algorithm) -> Tensor Y"
)
PACK = "mkldnn::_reorder_linear_weight(Tensor self, int? batch_size=None) -> Tensor Y"
INT8_LINEAR = (
    "onednn::qlinear_pointwise(Tensor qx, float x_scale, int x_zero_point, Tensor qw, Tensor"
    " w_scale, Tensor w_zero_point, Tensor? bias, float output_scale, int output_zero_point,"
    " ScalarType? output_dtype, str post_op_name, Scalar?[] post_op_args, str post_op_algorithm) ->"
    " Tensor"
)
INT8_PACK = "onednn::qlinear_prepack(Tensor weight, int[]? x_shape) -> Tensor"
INT8_WEIGHT = "aten::_weight_int8pack_mm(Tensor self, Tensor mat2, Tensor scales) -> Tensor"
HAS_BFLOAT16 = "mkldnn::_is_mkldnn_bf16_supported() -> bool _0"
HAS_FLOAT16 = "mkldnn::_is_mkldnn_fp16_supported() -> bool _0"
LSTM = (
    "aten::lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers,"
    " float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)"
)
LSTM_KERNEL = (
    "aten::mkldnn_rnn_layer(Tensor input, Tensor weight0, Tensor weight1, Tensor weight2, Tensor"
    " weight3, Tensor hx_, Tensor cx_, bool reverse, int[] batch_sizes, int mode, int hidden_size,"
    " int num_layers, bool has_biases, bool bidirectional, bool batch_first, bool train) ->"
    " (Tensor, Tensor, Tensor, Tensor)"
)
SCALE_BY_NUMBER = "aten::_foreach_mul_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()"
COPY = "aten::_foreach_copy_(Tensor(a!)[] self, Tensor[] src, bool non_blocking=False) -> ()"
SCALE_BY_TENSOR = "aten::_foreach_mul_.Tensor(Tensor(a!)[] self, Tensor other) -> ()"

COMPILED_SHAPES = 256
"""The most programs of one function."""


@cache
def operator(schema: str) -> Callable[..., Any] | None:
    """Return torch's operator of a schema; None if it is absent or has another schema."""
    namespace, _, rest = schema.partition("(")[0].partition("::")
    name, _, overload = rest.partition(".")
    try:
        candidate = getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
        return candidate if str(candidate._schema) == schema else None
    except AttributeError:
        return None


def operator_names(schema: str) -> list[Any]:
    """Return the name of an operator by which ``FlopCounterMode`` counts it; an empty list without
    the operator.
    """
    overload: Any = operator(schema)
    return [] if overload is None else [overload.overloadpacket]


# ------------------------------------------------------------------ products


def packed(weight: Tensor) -> Tensor:
    """Return W [O, I] in the layout of oneDNN's kernel; otherwise it is laid out at each
    product.
    """
    pack = operator(PACK) if operator(LINEAR) else None
    laid_out: Tensor = weight.contiguous() if pack is None else pack(weight.contiguous())
    return laid_out


def onednn_linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x W' + b [N, O] by oneDNN, without a gradient; W [O, I] may be `packed`."""
    multiply = operator(LINEAR)
    if multiply is None:
        return F.linear(inputs, weight, bias)
    product: Tensor = multiply(inputs, weight, bias, "none", [], "")
    return product


def packed_int8(weight: Tensor) -> Tensor:
    """Return W [O, I] in int8 as `int8_linear` reads it."""
    pack = operator(INT8_PACK) if operator(INT8_LINEAR) else None
    laid_out: Tensor = weight.double() if pack is None else pack(weight, None)
    return laid_out


def int8_linear(inputs: Tensor, zero: int, weight: Tensor, scales: Tensor, zeros: Tensor) -> Tensor:
    """Return (x - zero) W' * scales [N, O] in float32, for uint8 x [N, I], `packed_int8` W, scales
    [O], zeros 0 [O].

    The fallback adds in float64, in which every sum is exact, as in int32.
    """
    multiply = operator(INT8_LINEAR) if operator(INT8_PACK) else None
    if multiply is None:
        return (F.linear(inputs.double() - zero, weight) * scales).float()
    product: Tensor = multiply(
        inputs, 1.0, zero, weight, scales, zeros, None, 1.0, 0, torch.float32, "none", [], ""
    )  # fmt: skip
    return product


def int8_weight_linear(inputs: Tensor, weight: Tensor, scales: Tensor) -> Tensor:
    """Return x W' * scales [N, O] in bfloat16, for bfloat16 x [N, I] and scales [O], and int8 W
    [O, I].
    """
    multiply = operator(INT8_WEIGHT)
    if multiply is None:
        return (F.linear(inputs.double(), weight.double()) * scales).to(inputs.dtype)
    product: Tensor = multiply(inputs, weight, scales)
    return product


# ------------------------------------------------------------------ recurrent layers, gradients


def lstm(
    inputs: Tensor, weights: Sequence[Tensor], *, training: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Run one LSTM layer from zeros over inputs [B, S, I]: outputs [B, S, D], last hidden and cell
    state [B, D].

    ``weights`` are those of ``nn.LSTM``: weight_ih [4 D, I], weight_hh [4 D, D] and their biases [4
    D].
    """
    entering, recurrent, entering_bias, recurrent_bias = weights
    hidden = cell = inputs.new_zeros(len(inputs), recurrent.shape[1])
    run = operator(LSTM)
    if run is not None:
        states = (hidden.unsqueeze(0), cell.unsqueeze(0))
        outputs, last, cell = run(inputs, states, weights, True, 1, 0.0, training, False, True)
        return outputs, last.squeeze(0), cell.squeeze(0)
    steps = []
    for gates in F.linear(inputs, entering, entering_bias).unbind(1):
        take, keep, new, out = (gates + F.linear(hidden, recurrent, recurrent_bias)).chunk(4, -1)
        cell = keep.sigmoid() * cell + take.sigmoid() * new.tanh()
        hidden = out.sigmoid() * cell.tanh()
        steps.append(hidden)
    return torch.stack(steps, 1), hidden, cell


def copy_tensors(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Copy tensors to others, of the same shapes and maybe another type; on a GPU one kernel copies
    many.
    """
    copy = operator(COPY)
    if copy is not None:
        copy(targets, sources)
        return
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)


def scale_tensors(tensors: Sequence[Tensor], factor: float | Tensor) -> None:
    """Multiply tensors in place."""
    multiply = operator(SCALE_BY_TENSOR if isinstance(factor, Tensor) else SCALE_BY_NUMBER)
    if multiply is not None:
        multiply(tensors, factor)
        return
    for tensor in tensors:
        tensor.mul_(factor)


# ------------------------------------------------------------------ processors


def has_onednn_bfloat16() -> bool:
    """Return whether oneDNN multiplies bfloat16 on this processor."""
    return _is_supported(
        HAS_BFLOAT16, (("avx512_bw", "avx512_vl", "avx512_dq"), ("avx_ne_convert",), ("bf16",))
    )


def has_onednn_float16() -> bool:
    """Return whether oneDNN multiplies float16 on this processor."""
    return _is_supported(HAS_FLOAT16, (("avx512_fp16",), ("avx_ne_convert",)))


def _is_supported(schema: str, alternatives: Sequence[Sequence[str]]) -> bool:
    """Return oneDNN's answer; without it, whether the processor has all features of one of the
    alternatives.
    """
    check = operator(schema)
    if check is not None:
        return bool(check())
    has_onednn = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return has_onednn and any(all(map(has_feature, features)) for features in alternatives)


def has_feature(name: str) -> bool:
    """Return whether the processor has a feature of ``torch.cpu.get_capabilities``."""
    return bool(torch.cpu.get_capabilities().get(name, False))


def compile_recurrences() -> None:
    """Let ``torch.compile`` trace recurrent layers, and loops of many lengths; where torch has no
    such settings, they run as without it.
    """
    settings = getattr(getattr(torch, "_dynamo", None), "config", None)
    for name, value in (("allow_rnn", True), ("recompile_limit", COMPILED_SHAPES)):
        if hasattr(settings, name):
            setattr(settings, name, value)
