"""Activation checkpointing: the same numbers, computed twice in training only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dialog.models.seq2seq import Seq2Seq

VOCABULARY, PAD = 13, 0
LAYERS = {"name": "transformer", "heads": 2, "feed_forward_size": 12, "layers": 2}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "norm last": {"norm_first": False},
    "modern": {
        "norm": "rms_norm",
        "activation": "swiglu",
        "positions": {"name": "rotary"},
        "key_value_heads": 1,
    },
    "whole layers dropped": {"layer_drop": 0.4},
}


def network(
    checkpointing: bool,
    variant: str = "plain",
    head: str = "vocabulary",
    decoder: str = "transformer",
) -> Seq2Seq:
    torch.manual_seed(3)
    part = LAYERS | VARIANTS[variant]
    recurrent = {"name": "lstm", "size": 8, "attention": {"name": "additive", "size": 4}}
    model = Seq2Seq(
        VOCABULARY,
        padding=PAD,
        embedding_size=8,
        encoder=part,
        decoder=part if decoder == "transformer" else recurrent,
        head={"name": head},
        dropout=0.3,
        activation_checkpointing=checkpointing,
    )
    return model.double()


def read(model: Seq2Seq, hook: Any = None) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    source, target = (
        torch.randint(1, VOCABULARY, (3, size), generator=generator) for size in (5, 4)
    )
    source[0, 3:] = PAD
    return model(source, source != PAD, target, hook)


def outputs_and_gradients(model: Seq2Seq) -> dict[str, Tensor]:
    torch.manual_seed(8)
    logits = read(model.train())
    (logits * torch.linspace(-1, 1, logits.numel()).double().view_as(logits)).sum().backward()
    after = torch.rand(())  # the generator ends in the same state
    gradients = {
        name: parameter.grad
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    return {"logits": logits.detach(), "after": after, **gradients}


@contextmanager
def counted(model: Seq2Seq) -> Iterator[Counter[str]]:
    calls: Counter[str] = Counter()
    handles = [
        module.register_forward_pre_hook(lambda *_, name=name: calls.update([name]))
        for name, module in model.named_modules()
        if name.rpartition(".")[0].endswith("layers")
    ]
    yield calls
    for handle in handles:
        handle.remove()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("head", ["vocabulary", "pointer_generator"])
def test_outputs_and_gradients_are_equal_with_dropout(variant: str, head: str) -> None:
    plain, saving = network(False, variant, head), network(True, variant, head)
    assert list(plain.state_dict()) == list(saving.state_dict())
    expected, saved_outputs = outputs_and_gradients(plain), outputs_and_gradients(saving)
    assert expected.keys() == saved_outputs.keys()
    torch.testing.assert_close(saved_outputs, expected, rtol=0, atol=1e-12)


def test_layers_are_computed_twice_in_training_only() -> None:
    model = network(True)
    with counted(model) as calls:
        outputs_and_gradients(model)
    assert len(calls) == 4
    assert set(calls.values()) == {2}
    with counted(model.eval()) as calls:
        read(model).sum().backward()
        with torch.no_grad():
            read(model)
    assert set(calls.values()) == {2}  # once each


def test_less_is_saved() -> None:
    def saved(model: Seq2Seq) -> int:
        sizes = []

        def pack(tensor: Tensor) -> Tensor:
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            read(model.train())
        return sum(sizes)

    assert saved(network(True)) < 0.5 * saved(network(False))


def test_a_hook_sees_each_map_once() -> None:
    seen: list[nn.Module] = []
    logits = read(network(True).train(), lambda module, weights: seen.append(module))
    logits.sum().backward()
    assert len(seen) == len(set(map(id, seen))) == 6


def test_checkpointing_needs_a_transformer() -> None:
    network(True, decoder="lstm")
    recurrent = {"name": "lstm", "size": 8}
    with pytest.raises(
        ValueError, match="activation_checkpointing: neither encoder nor decoder is a Transformer"
    ):
        Seq2Seq(
            VOCABULARY,
            padding=PAD,
            embedding_size=8,
            encoder=recurrent,
            decoder={**recurrent, "attention": {"name": "none"}},
            activation_checkpointing=True,
        )
