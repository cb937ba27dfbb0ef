"""Products by oneDNN against the formula."""

from typing import Any
from unittest import mock

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dialog.models.heads import Decoded, VocabularyHead
from dialog.models.kernels import linear as kernel
from dialog.models.kernels.likelihood import token_scores

needs_onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch without oneDNN")


class Operations(TorchDispatchMode):
    """Names of the operations that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401 - torch gives any
        self.names.add(str(call))
        return call(*args, **(kwargs or {}))


@pytest.fixture
def slow_mkl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "mkl_is_slow", lambda: True)


def by_onednn(inputs: torch.Tensor, weight: torch.Tensor) -> bool:
    bias = torch.ones_like(weight[:, 0])
    with Operations() as operations:
        result = kernel.linear(inputs, weight)
        shifted = kernel.affine(bias, inputs, weight)
    torch.testing.assert_close(result, inputs @ weight.t(), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(shifted, result + bias, rtol=1e-5, atol=1e-4)
    return "mkldnn._linear_pointwise.default" in operations.names


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
    with torch.no_grad(), Operations() as operations:
        torch.testing.assert_close(layer(inputs), trained.detach(), rtol=1e-5, atol=1e-5)
    assert "mkldnn._linear_pointwise.default" in operations.names
    with torch.no_grad(), Operations() as operations:
        torch.testing.assert_close(layer(inputs[:1, :3]), trained[:1, :3].detach(), rtol=1e-5, atol=1e-5)
    assert "mkldnn._linear_pointwise.default" not in operations.names  # so few rows that packing costs more


@needs_onednn
@torch.no_grad()
def test_scores_of_tokens_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    head, outputs, targets = VocabularyHead(5000, 64, bias=True), torch.randn(300, 64), torch.randint(5000, (300,))
    decoded = Decoded(outputs, outputs, outputs[:, :0], targets[:, None][:, :0])
    results = []
    for slow in (True, False):
        monkeypatch.setattr(kernel, "mkl_is_slow", lambda slow=slow: slow)
        with Operations() as operations:
            results.append(token_scores(head, decoded, targets))
        assert ("mkldnn._linear_pointwise.default" in operations.names) is slow
    torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-5)
