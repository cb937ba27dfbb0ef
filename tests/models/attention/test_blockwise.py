"""Attention in blocks against the formula."""

from collections.abc import Callable

import pytest
import torch
from operations import Operation, Operations
from torch import Tensor, nn

from dialog.models.attention import MultiHeadAttention
from dialog.models.attention import blockwise as blockwise_attention
from dialog.models.attention.blockwise import blockwise
from dialog.models.attention.multi_head import attention_weights, mix

HEADS, WIDTH = 6, 2
SIZE = HEADS * WIDTH
Stir = Callable[[nn.Module], nn.Module]
Draw = Callable[..., Tensor]

MASKS = {
    "none": None,
    "padding": (torch.arange(5) < torch.tensor([[5], [2], [1]]))[:, None, None],
    "no real token": (torch.arange(5) < torch.tensor([[5], [0], [1]]))[:, None, None],
    "per head": torch.arange(3 * HEADS * 5 * 5).reshape(3, HEADS, 5, 5) % 3 > 0,
}


def formula(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, dropout: float = 0.0
) -> Tensor:
    return mix(attention_weights(query, keys, mask), values, dropout)


def dropped(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    return formula(query, keys, values, mask, 0.5)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("size", [1, 2 * HEADS * 5, 10**6], ids=["one query", "two", "all"])
def test_blocks_of_queries_are_the_formula(
    mask: Tensor | None,
    size: int,
    draw: Draw,
    agree: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blockwise_attention, "BLOCK", size)
    inputs = [draw(3, HEADS, 5, WIDTH).requires_grad_() for _ in range(3)]
    agree([blockwise(formula, *inputs, mask)], [formula(*inputs, mask)], inputs)


def test_both_passes_drop_the_same_weights(draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blockwise_attention, "BLOCK", 2 * HEADS * 5)
    query, keys, values, gradient = (draw(3, HEADS, 5, width) for width in (WIDTH, WIDTH, 4, 4))
    torch.manual_seed(0)
    identity = torch.eye(5, dtype=values.dtype).expand(3, HEADS, 5, 5)
    weights = blockwise(dropped, query, keys, identity, None)  # [B, H, T, S]
    assert 0.3 < (weights == 0).double().mean() < 0.7
    torch.manual_seed(0)
    mixed = blockwise(dropped, query, keys, values.requires_grad_(), None)
    torch.testing.assert_close(mixed, weights @ values)
    (of_values,) = torch.autograd.grad(mixed, values, gradient)
    torch.testing.assert_close(of_values, weights.transpose(2, 3) @ gradient)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("groups", [1, HEADS])
def test_no_pass_holds_all_weights_of_long_sources(
    dropout: float, groups: int, stir: Stir, draw: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blockwise_attention, "BLOCK", HEADS * 64 * 4)
    attention, largest = (
        stir(MultiHeadAttention(SIZE, HEADS, dropout=dropout, key_value_heads=groups)),
        [],
    )

    def watch(operation: Operation) -> None:
        if isinstance(operation.result, Tensor):
            largest.append(operation.result.numel())

    states = draw(1, 64, SIZE).requires_grad_()
    with Operations(watch):
        attention.train()(states, *attention.keys_values(states), causal=True).sum().backward()
    assert max(largest) <= HEADS * 64 * 64 // 4
