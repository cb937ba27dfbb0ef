"""Private operators of torch against their fallbacks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from operations import needs_onednn
from torch import Tensor, nn

from dialog.models.kernels import private_operators
from dialog.models.kernels.linear import Linear
from dialog.models.kernels.private_operators import copy_tensors
from dialog.models.kernels.products import (
    FloatProduct,
    HalfProduct,
    Int8Product,
    Int8WeightProduct,
    has_int8,
)
from dialog.models.recurrent.cells import LSTM
from dialog.training.distributed.fsdp import scale_gradients
from dialog.training.optimization.precision import has_bfloat16, has_float16

Results = list[Tensor]
WEIGHT, BIAS, INPUTS = (
    torch.randn(size, generator=torch.Generator().manual_seed(1))
    for size in ((48, 64), 48, (9, 64))
)
ONEDNN = (
    "LINEAR",
    "PACK",
    "INT8_LINEAR",
    "INT8_PACK",
    "HAS_BFLOAT16",
    "HAS_FLOAT16",
    "LSTM_KERNEL",
)
ANYWHERE = ("INT8_WEIGHT", "LSTM", "SCALE_BY_NUMBER", "SCALE_BY_TENSOR", "COPY")


def layer() -> Results:
    linear = Linear(64, 48)
    linear.load_state_dict({"weight": WEIGHT, "bias": BIAS})
    return [linear(INPUTS.repeat(4, 1))]


def float_products() -> Results:
    return [FloatProduct(WEIGHT, bias)(INPUTS) for bias in (BIAS, None)]


def half_products() -> Results:
    return [HalfProduct(WEIGHT.bfloat16(), bias)(INPUTS) for bias in (BIAS.bfloat16(), None)]


def int8_products() -> Results:
    return [Int8Product(WEIGHT, bias)(INPUTS[:rows]) for bias in (BIAS, None) for rows in (1, 9)]


def int8_weight_products() -> Results:
    return [
        Int8WeightProduct(WEIGHT, bias)(INPUTS[:rows]) for bias in (BIAS, None) for rows in (1, 8)
    ]


def final_states() -> Results:
    inputs = (
        torch.randn(3, 5, 6, generator=torch.Generator().manual_seed(2)).double().requires_grad_()
    )
    recurrent = nn.LSTM(6, 4, batch_first=True).double()
    for parameter in recurrent.parameters():
        nn.init.uniform_(parameter, -1, 1, generator=torch.Generator().manual_seed(parameter.dim()))
    mask = torch.arange(5) < torch.tensor([[5], [0], [2]])
    with torch.enable_grad():
        results = LSTM().final(recurrent, inputs, mask)
        loss = sum(result.square().sum() for result in results)
        return [*results, *torch.autograd.grad(loss, [inputs, *recurrent.parameters()])]


def gradients() -> Results:
    results = []
    for factor in (0.5, torch.tensor(0.25)):
        parameters = [nn.Parameter(torch.ones(size)) for size in (2, 3)]
        for parameter in parameters[:1]:
            parameter.grad = torch.arange(2.0)
        scale_gradients(parameters, factor)
        results.append(parameters[0].grad)
    return results


def copies() -> Results:
    targets = [torch.empty(size, dtype=torch.bfloat16) for size in (2, 3)]
    copy_tensors(targets, [torch.full((size,), 1 / size) for size in (2, 3)])
    return targets


def supported() -> Results:
    return [torch.tensor([has_bfloat16("cpu"), has_float16("cpu")])]


needs_vnni = pytest.mark.skipif(not has_int8("cpu"), reason="the processor has no VNNI")
EXACT, ROUNDED = 1e-5, 2**-7
"""Largest relative difference: rounding in float32, and of the result to bfloat16."""


@pytest.mark.parametrize(
    "name", [*(pytest.param(name, marks=needs_onednn) for name in ONEDNN), *ANYWHERE]
)
def test_installed_torch_has_the_operator(name: str) -> None:
    """Without it, the fallback would be used, which is slower: adapt schema and call."""
    assert private_operators.operator(getattr(private_operators, name)) is not None


def test_changed_or_absent_operators_are_not_used() -> None:
    schema = private_operators.LSTM
    for other in (
        schema.replace("float dropout", "int dropout"),
        schema.replace("lstm", "gone"),
        "gone::gone() -> ()",
    ):
        assert private_operators.operator(other) is None
        assert private_operators.operator_names(other) == []


@pytest.mark.parametrize(
    ("example", "rtol"),
    [
        pytest.param(layer, EXACT, marks=needs_onednn),
        pytest.param(float_products, EXACT, marks=needs_onednn),
        pytest.param(half_products, ROUNDED, marks=needs_onednn),
        pytest.param(int8_products, EXACT, marks=needs_vnni),
        pytest.param(int8_weight_products, ROUNDED, marks=needs_vnni),
        (final_states, EXACT),
        (gradients, EXACT),
        (copies, EXACT),
        (supported, EXACT),
    ],
)
@torch.no_grad()
def test_fallback_is_the_operator(
    example: Callable[[], Results], rtol: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("models.kernels.linear", "models.kernels.products"):
        monkeypatch.setattr(f"dialog.{module}.mkl_is_slow", lambda: True)
    expected, lookups, operator = example(), [], private_operators.operator
    monkeypatch.setattr(private_operators, "operator", lookups.append)
    results = [example()]
    for absent in set(lookups):  # one alone, such as a product without the layout of its weights
        monkeypatch.setattr(
            private_operators,
            "operator",
            lambda it, absent=absent: None if it == absent else operator(it),
        )
        results.append(example())
    assert len(results) > 1
    for result, other in (
        (one, other) for tensors in results for one, other in zip(tensors, expected, strict=True)
    ):
        assert result.dtype is other.dtype
        torch.testing.assert_close(result, other, rtol=rtol, atol=1e-5)
