"""Multi-head attention in bfloat16 on a CPU: the formula, float64, and what is stored."""

from collections.abc import Callable

import pytest
import torch
from operations import Operation, Operations
from torch import Tensor, nn

from dialog.models.attention import MultiHeadAttention
from dialog.models.attention.multi_head import attend, attention_weights, mix

ROWS, HEADS, LENGTH, WIDTH = 3, 2, 40, 8
SIZE = HEADS * WIDTH
Stir = Callable[[nn.Module], nn.Module]
Draw = Callable[..., Tensor]

LENGTHS = torch.arange(LENGTH) < torch.tensor([[LENGTH], [0], [7]])
MASKS = {
    "none": None,
    "padding and no real token": LENGTHS[:, None, None],
    "causal": torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril(),
    "per head": torch.arange(ROWS * HEADS * LENGTH**2).reshape(ROWS, HEADS, LENGTH, LENGTH) % 3 > 0,
}
every_mask = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)


def heads(draw: Draw, dtype: torch.dtype) -> list[Tensor]:
    return [draw(ROWS, HEADS, LENGTH, WIDTH).to(dtype).requires_grad_() for _ in range(3)]


@every_mask
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_attend_is_the_formula(mask: Tensor | None, dtype: torch.dtype, draw: Draw) -> None:
    inputs, weight = heads(draw, dtype), draw(ROWS, HEADS, LENGTH, WIDTH).to(dtype)
    query, keys, values = inputs
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype is torch.bfloat16):
        sides = [attend(*inputs, mask, 0.0), mix(attention_weights(query, keys, mask), values, 0.0)]
    assert sides[0].dtype is dtype
    torch.testing.assert_close(sides[0], sides[1], rtol=0, atol=1e-5)
    ours, theirs = (torch.autograd.grad(side, inputs, weight) for side in sides)
    rough = 0.01 if dtype is torch.bfloat16 else 1e-5
    for one, other in zip(ours, theirs, strict=True):
        assert (one - other).norm() <= rough * other.norm()


@every_mask
def test_gradients_are_those_of_float64(mask: Tensor | None, draw: Draw) -> None:
    inputs, weight = heads(draw, torch.bfloat16), draw(ROWS, HEADS, LENGTH, WIDTH).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        output = attend(*inputs, mask, 0.0)
    exact = [leaf.detach().double().requires_grad_() for leaf in inputs]
    expected = mix(attention_weights(*exact[:2], mask), exact[2], 0.0)
    gradients = (
        torch.autograd.grad(output, inputs, weight),
        torch.autograd.grad(expected, exact, weight.double()),
    )
    for one, other in zip((output, *gradients[0]), (expected, *gradients[1]), strict=True):
        assert (one.double() - other).norm() < 0.01 * other.norm()
        if mask is MASKS["padding and no real token"]:
            assert not one[1].any()


def test_dropout_keeps_the_mean(draw: Draw) -> None:
    """A factor of 1 / 0.9 in bfloat16 would be 0.17 % too small."""
    query, keys, values = (draw(64, 1, 128, 16).bfloat16() for _ in range(3))
    torch.manual_seed(0)
    with torch.autocast("cpu", torch.bfloat16):
        means = [
            attend(query, keys, torch.ones_like(values), None, 0.1).float().mean() for _ in range(8)
        ]
    assert torch.stack(means).mean().item() == pytest.approx(1, abs=8e-4)  # 4 standard errors


@pytest.mark.parametrize("causal", [False, True])
def test_no_pass_stores_weights_in_float32(causal: bool, draw: Draw, stir: Stir) -> None:
    attention, stored = stir(MultiHeadAttention(SIZE, HEADS)).float(), []

    def watch(operation: Operation) -> None:
        if (
            isinstance(operation.result, Tensor)
            and operation.result.numel() == ROWS * HEADS * LENGTH**2
        ):
            stored.append(operation.result.dtype)

    states = draw(ROWS, LENGTH, SIZE).float().requires_grad_()
    with Operations(watch):
        with torch.autocast("cpu", torch.bfloat16):
            output = attention(
                states, *attention.keys_values(states), LENGTHS[:, None, None], causal
            )
        output.float().sum().backward()
    assert set(stored) == {torch.bfloat16}
