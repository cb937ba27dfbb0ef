"""Products by oneDNN against the formula."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest
import torch
from operations import Operation, Operations, needs_onednn

from dialog.models.heads import Decoded, VocabularyHead
from dialog.models.kernels import linear as kernel
from dialog.models.likelihood import token_scores


@contextmanager
def products_of_onednn() -> Iterator[list[Operation]]:
    """Collect oneDNN's products."""
    found: list[Operation] = []
    with Operations(
        lambda it: found.append(it) if "mkldnn._linear_pointwise" in str(it.call) else None
    ):
        yield found


@pytest.fixture
def slow_mkl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "mkl_is_slow", lambda: True)


def by_onednn(inputs: torch.Tensor, weight: torch.Tensor) -> bool:
    bias = torch.ones_like(weight[:, 0])
    with products_of_onednn() as products:
        result = kernel.linear(inputs, weight)
        shifted = kernel.affine(bias, inputs, weight)
    torch.testing.assert_close(result, inputs @ weight.t(), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(shifted, result + bias, rtol=1e-5, atol=1e-4)
    return bool(products)


@needs_onednn
@pytest.mark.usefixtures("slow_mkl")
@pytest.mark.parametrize("rows", [0, 1, 70])
def test_linear_is_the_formula(rows: int) -> None:
    inputs, weight = torch.randn(rows, 48), torch.randn(90, 48)[10:]
    assert not by_onednn(inputs, weight.requires_grad_())  # which has a gradient
    with torch.no_grad():
        assert by_onednn(inputs, weight)
        assert not by_onednn(inputs.double(), weight.double())
        with torch.autocast("cpu", torch.bfloat16):
            assert kernel.linear(inputs, weight).dtype is torch.bfloat16
        with mock.patch.object(kernel, "mkl_is_slow", return_value=False):
            assert not by_onednn(inputs, weight)


@needs_onednn
@pytest.mark.usefixtures("slow_mkl")
@pytest.mark.parametrize("bias", [True, False])
def test_layer_is_the_formula_with_and_without_gradient(bias: bool) -> None:
    layer, inputs = kernel.Linear(12, 30, bias=bias), torch.randn(4, 5, 12)
    trained = layer(inputs)
    assert trained.requires_grad
    with torch.no_grad(), products_of_onednn() as products:
        torch.testing.assert_close(layer(inputs), trained.detach(), rtol=1e-5, atol=1e-5)
    assert products
    with torch.no_grad(), products_of_onednn() as products:
        torch.testing.assert_close(
            layer(inputs[:1, :3]), trained[:1, :3].detach(), rtol=1e-5, atol=1e-5
        )
    assert not products  # for so few rows, packing costs more than it saves


@needs_onednn
@torch.no_grad()
def test_scores_of_tokens_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    head, outputs, targets = (
        VocabularyHead(5000, 64, bias=True),
        torch.randn(300, 64),
        torch.randint(5000, (300,)),
    )
    decoded = Decoded(outputs, outputs, outputs[:, :0], targets[:, None][:, :0])
    results = []
    for slow in (True, False):
        monkeypatch.setattr(kernel, "mkl_is_slow", lambda slow=slow: slow)
        with products_of_onednn() as products:
            results.append(token_scores(head, decoded, targets))
        assert bool(products) is slow
    torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-5)
