"""Weights that are cast together for a step, against autocast, which casts one after the other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from operations import Operation, Operations
from torch import Tensor

import dialog
from dialog.data.batching import Batch
from dialog.data.tokenizers.tokenizer import PAD
from dialog.models.kernels import casts
from dialog.models.kernels.casts import cast_linear
from dialog.models.kernels.linear import Linear
from dialog.models.seq2seq import Seq2Seq

Results = tuple[Tensor, dict[str, Tensor | None]]


def gradients(module: dialog.DialogModule, batch: Batch) -> Results:
    module.zero_grad()
    torch.manual_seed(2)
    with torch.autocast("cpu", torch.bfloat16):
        loss = module.training_step(batch, 0)
    loss.backward()
    return loss.detach(), {name: each.grad for name, each in module.model.named_parameters()}


@pytest.mark.parametrize("group", [1, casts.GROUP], ids=["each", "all"])
@pytest.mark.parametrize(
    ("decoder", "options"),
    [
        ("lstm", {}),
        ("lstm_luong", {}),
        ("transformer", {"dropout": 0.1}),
        ("transformer", {"activation_checkpointing": True, "dropout": 0.1}),
    ],
)
def test_casts_are_those_of_autocast(
    network: Callable[..., Seq2Seq],
    batch: Callable[..., Batch],
    monkeypatch: pytest.MonkeyPatch,
    decoder: str,
    options: dict[str, Any],
    group: int,
) -> None:
    """Bit for bit; a frozen weight gets no gradient, and R-drop uses each weight twice."""
    monkeypatch.setattr(casts, "GROUP", group)
    model = network(decoder, **options).float()
    module = dialog.DialogModule(model, padding=PAD, loss={"name": "r_drop"})
    layers = [layer for layer in model.modules() if isinstance(layer, Linear)]
    layers[-1].requires_grad_(False)
    loss, found = gradients(module, batch())
    monkeypatch.setattr("dialog.training.step.cast_linear", lambda model: nullcontext())
    expected, exact = gradients(module, batch())
    assert torch.equal(loss, expected)
    assert layers[-1].weight.grad is None
    for name, gradient in exact.items():
        assert (gradient is None) is (found[name] is None), name
        assert gradient is None or torch.equal(found[name], gradient), name


def fail(right: bool) -> None:
    raise KeyError if right else AssertionError


def test_weights_return_after_the_block(network: Callable[..., Seq2Seq]) -> None:
    """Also after an error; without autocast, and in float64, no weight is replaced."""
    model = network("transformer").float()
    layers = [layer for layer in model.modules() if isinstance(layer, Linear)]
    weights = [layer.weight for layer in layers]
    with torch.autocast("cpu", torch.bfloat16):
        with pytest.raises(KeyError), cast_linear(model):
            fail({layer.weight.dtype for layer in layers} == {torch.bfloat16})
        double = network("transformer")
        with cast_linear(double):
            assert {each.dtype for each in double.parameters()} == {torch.float64}
    with cast_linear(model):
        assert [layer.weight for layer in layers] == weights
    assert all(layer.weight is weight for layer, weight in zip(layers, weights, strict=True))


def test_no_product_casts_a_weight(
    network: Callable[..., Seq2Seq], batch: Callable[..., Batch]
) -> None:
    model = network("transformer", encoder="transformer").float()
    cast: list[tuple[int, torch.Size]] = []

    def watch(operation: Operation) -> None:
        if operation.call is torch.ops.aten._to_copy.default:
            tensor = operation.arguments[0]
            cast.append((tensor.data_ptr(), tensor.shape))

    module = dialog.DialogModule(model, padding=PAD)
    with torch.autocast("cpu", torch.bfloat16), Operations(watch):
        module.training_step(batch(), 0)
    weights = {(each.data_ptr(), each.shape) for each in model.parameters()}
    assert len(weights.intersection(cast)) == 1, "only the head casts its table"
