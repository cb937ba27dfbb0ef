"""Products in several precisions."""

import pytest
import torch
from operations import needs_onednn

from dialog.models.kernels.products import (
    FloatProduct,
    HalfProduct,
    Int8Product,
    Int8WeightProduct,
    has_int8,
    product,
)

needs_vnni = pytest.mark.skipif(not has_int8("cpu"), reason="the processor has no VNNI")
INPUTS, OUTPUTS = 96, 80


def factors(rows: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(rows)
    sizes = [(rows, INPUTS), (OUTPUTS, INPUTS), (OUTPUTS,)]
    inputs, weight, bias = (torch.randn(size, generator=generator) for size in sizes)
    return inputs * torch.logspace(-3, 3, rows).unsqueeze(1), weight, bias


@pytest.mark.parametrize("rows", [1, 5, 40])
@pytest.mark.parametrize("has_bias", [True, False])
def test_float_products_are_exact_and_half_products_rounded(rows: int, has_bias: bool) -> None:
    inputs, weight, bias = factors(rows)
    own = bias if has_bias else None
    expected = torch.nn.functional.linear(inputs, weight, own)
    torch.testing.assert_close(FloatProduct(weight, own)(inputs), expected, rtol=1e-5, atol=1e-4)
    half = HalfProduct(weight.bfloat16(), None if own is None else own.bfloat16())(inputs)
    assert half.dtype is torch.float32
    bound = 2**-8 * 3 * (inputs.abs() @ weight.abs().t() + bias.abs())  # three roundings of 8 bits
    assert ((half - expected).abs() <= bound).all()


@needs_onednn
@pytest.mark.parametrize("has_bias", [True, False])
def test_product_of_onednn_equals_that_of_mkl(
    has_bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dialog.models.kernels.products.mkl_is_slow", lambda: True)
    inputs, weight, bias = factors(41)
    own = bias if has_bias else None
    packed = FloatProduct(weight, own)
    assert packed.packed is not None
    for rows in (inputs, inputs[::2], inputs.t().contiguous().t(), inputs[:1], inputs[:0]):
        torch.testing.assert_close(
            packed(rows), torch.nn.functional.linear(rows, weight, own), rtol=1e-5, atol=1e-4
        )


@needs_vnni
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_int8_products_err_by_the_roundings_of_both_factors(rows: int) -> None:
    inputs, weight, bias = factors(rows)
    error = (
        Int8Product(weight, bias)(inputs) - torch.nn.functional.linear(inputs, weight, bias)
    ).abs()
    # half of the distance of two values
    step, weight_step = (part.abs().amax(1) / 254 for part in (inputs, weight))
    bound = (
        weight_step * inputs.abs().sum(1, keepdim=True)
        + step.unsqueeze(1) * weight.abs().sum(1)
        + INPUTS * step.unsqueeze(1) * weight_step
    )
    assert (error <= bound * 1.001 + 1e-4).all()
    assert error.max() > 0


@needs_vnni
@pytest.mark.parametrize("rows", [1, 5, 8])
def test_products_of_int8_weights_err_by_their_roundings(rows: int) -> None:
    inputs, weight, bias = factors(rows)
    error = (
        Int8WeightProduct(weight, bias)(inputs) - torch.nn.functional.linear(inputs, weight, bias)
    ).abs()
    half_steps = weight.abs().amax(1) / 254
    bound = half_steps * inputs.abs().sum(1, keepdim=True) + 2**-8 * 2 * (
        inputs.abs() @ weight.abs().t()
    )
    assert (error <= bound * 1.02 + 1e-4).all()
    assert error.max() > 0


@needs_vnni
@pytest.mark.parametrize("kind", [Int8Product, Int8WeightProduct])
def test_rows_of_an_int8_product_do_not_depend_on_each_other(
    kind: type[Int8Product | Int8WeightProduct],
) -> None:
    inputs, weight, bias = factors(40)
    inputs[3] = 0
    multiply = kind(weight, bias)
    whole = multiply(inputs)
    assert torch.equal(whole[3], bias)
    for rows in ([7], [3, 7, 20], list(range(39, -1, -1))):
        assert torch.equal(multiply(inputs[rows]), whole[rows])


@needs_vnni
def test_kernel_of_int8_weights_gets_whole_blocks_only() -> None:
    for size in [(80, 100), (100, 80)]:
        with pytest.raises(
            ValueError, match=r"sizes \(\d+, \d+\) of a matrix are not multiples of 16"
        ):
            Int8WeightProduct(torch.ones(size), None)


@needs_vnni
@pytest.mark.parametrize(
    ("size", "few", "many"),
    [
        ((1024, 512), Int8Product, Int8Product),
        ((256, 256), Int8WeightProduct, Int8Product),
        ((250, 300), Int8Product, Int8Product),
        ((64, 64), Int8WeightProduct, FloatProduct),
        ((50, 64), FloatProduct, FloatProduct),
    ],
)
def test_int8_product_depends_on_size_and_rows(
    size: tuple[int, int], few: type, many: type
) -> None:
    generator = torch.Generator().manual_seed(1)
    weight, inputs = (
        torch.randn(size, generator=generator),
        torch.randn(9, size[1], generator=generator),
    )
    multiply = product(weight, int8=True)
    for kind, rows in ((few, inputs[:8]), (many, inputs)):
        assert torch.equal(multiply(rows), kind(weight, None)(rows))


def test_product_is_in_float32_by_default() -> None:
    assert isinstance(product(torch.zeros(1024, 512)), FloatProduct)
