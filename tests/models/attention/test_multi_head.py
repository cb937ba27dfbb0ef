"""Grouped heads, turned queries and hooks for one module, in float64; test_attention.py has the rest."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.models.attention import MultiHeadAttention, multi_head
from dialog.models.attention.multi_head import attention_weights, blockwise, mix
from dialog.models.contracts import Only, meant_for

SIZE, HEADS, WIDTH = 12, 6, 2
Stir = Callable[[nn.Module], nn.Module]
Draw = Callable[..., Tensor]

MASKS = {
    "none": None,
    "padding": (torch.arange(5) < torch.tensor([[5], [2], [1]]))[:, None, None],
    "nothing real": (torch.arange(5) < torch.tensor([[5], [0], [1]]))[:, None, None],
    "another for each head": torch.arange(3 * HEADS * 5 * 5).reshape(3, HEADS, 5, 5) % 3 > 0,
}


def copied(weight: Tensor, groups: int) -> Tensor:
    """Rows of a grouped key's or value's weight, each group's once for each head that reads it."""
    each = weight.unflatten(0, (groups, WIDTH))
    return torch.cat([each[head * groups // HEADS] for head in range(HEADS)])


@pytest.mark.parametrize("hooked", [False, True], ids=["fused", "hooked"])
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_grouped_heads_are_heads_with_copied_keys_and_values(
    groups: int,
    mask: Tensor | None,
    causal: bool,
    hooked: bool,
    draw: Draw,
    stir: Stir,
    agree: Callable[..., None],
) -> None:
    ours = stir(MultiHeadAttention(SIZE, HEADS, key_value_heads=groups))
    plain, states = MultiHeadAttention(SIZE, HEADS).double(), draw(3, 5, SIZE).requires_grad_()
    shown: dict[bool, Tensor] = {}
    hooks = [
        (lambda _, weights, mine=mine: shown.update({mine: weights})) if hooked else None for mine in (True, False)
    ]
    keys, values = ours.keys_values(states)
    assert keys.shape == values.shape == (3, groups, 5, WIDTH)
    output = ours(states, keys, values, mask, causal, hooks[0])

    named = dict(ours.named_parameters())
    named |= {name: copied(named[name], groups) for name in named if name.startswith(("key.", "value."))}
    keys, values = (
        F.linear(states, named[f"{name}.weight"], named[f"{name}.bias"]).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2)
        for name in ("key", "value")
    )
    expected = torch.func.functional_call(plain, named, (states, keys, values, mask, causal, hooks[1]))
    agree([output], [expected], [states, *ours.parameters()])
    if hooked:
        assert shown[True].shape == (3, HEADS, 5, 5)
        torch.testing.assert_close(shown[True], shown[False], rtol=0, atol=1e-12)


def test_one_group_for_each_head_is_plain() -> None:
    torch.manual_seed(0)
    plain = MultiHeadAttention(SIZE, HEADS)
    torch.manual_seed(0)
    grouped = MultiHeadAttention(SIZE, HEADS, key_value_heads=HEADS)
    torch.testing.assert_close(grouped.state_dict(), plain.state_dict(), rtol=0, atol=0)


def test_grouped_heads_have_smaller_keys_and_values() -> None:
    shapes = {name: tuple(each.shape) for name, each in MultiHeadAttention(12, 6, key_value_heads=2).named_parameters()}
    assert shapes == {
        "query.weight": (12, 12), "query.bias": (12,), "key.weight": (4, 12), "key.bias": (4,),
        "value.weight": (4, 12), "value.bias": (4,), "output.weight": (12, 12), "output.bias": (12,),
    }  # fmt: skip


@pytest.mark.parametrize("groups", [4, 0, -1, 12])
def test_groups_must_divide_the_heads(groups: int) -> None:
    with pytest.raises(ValueError, match=rf"^heads 6 is no multiple of {groups} key_value_heads$"):
        MultiHeadAttention(12, 6, key_value_heads=groups)


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "bfloat16 by the formula"])
def test_a_grouped_past_is_the_whole(fused: bool, draw: Draw, stir: Stir, monkeypatch: pytest.MonkeyPatch) -> None:
    attention, states = stir(MultiHeadAttention(SIZE, HEADS, key_value_heads=2)), draw(2, 6, SIZE)
    keys, values = attention.keys_values(states)
    whole = attention(states, keys, values, causal=True)
    if not fused:
        monkeypatch.setattr("dialog.models.attention.multi_head._formula_is_faster", lambda *_: True)
        monkeypatch.setattr(F, "scaled_dot_product_attention", None)
    for past in range(6):
        rest = attention(states[:, past:], keys, values, causal=True)
        torch.testing.assert_close(rest, whole[:, past:], rtol=0, atol=1e-12)


def test_where_no_kernel_groups_keys_are_copied(draw: Draw, stir: Stir, monkeypatch: pytest.MonkeyPatch) -> None:
    attention, states = stir(MultiHeadAttention(SIZE, HEADS, key_value_heads=2)), draw(2, 6, SIZE)
    expected = attention(states, *attention.keys_values(states))
    monkeypatch.setattr("dialog.models.attention.multi_head._kernel_knows_groups", lambda _: False)
    torch.testing.assert_close(attention(states, *attention.keys_values(states)), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("hook", [None, lambda *_: None], ids=["fused", "hooked"])
def test_turning_the_query_is_turning_what_its_projection_gives(
    hook: Callable[..., None] | None, draw: Draw, stir: Stir
) -> None:
    attention, states = stir(MultiHeadAttention(SIZE, HEADS)), draw(2, 6, SIZE)
    keys, values = attention.keys_values(states)
    seen: list[torch.Size] = []

    def turn(heads: Tensor) -> Tensor:
        seen.append(heads.shape)
        return -2 * heads

    found = attention(states, keys, values, hook=hook, turn=turn)
    assert seen == [(2, HEADS, 6, WIDTH)]
    with torch.no_grad():
        attention.query.weight *= -2
        attention.query.bias *= -2
    torch.testing.assert_close(found, attention(states, keys, values), rtol=0, atol=1e-12)


def test_a_hook_for_one_module_is_meant_for_no_other() -> None:
    one, other, seen = nn.Identity(), nn.Identity(), []
    hook = Only(one, lambda *shown: seen.append(shown))
    assert meant_for(hook, one) is hook
    assert meant_for(hook, other) is None
    assert meant_for(None, one) is None
    assert meant_for(print, other) is print
    hook(other, torch.zeros(1))
    assert not seen
    weights = torch.zeros(1)
    hook(one, weights)
    assert seen == [(one, weights)]


def test_a_hook_for_another_module_leaves_the_kernel_fused(
    draw: Draw, stir: Stir, monkeypatch: pytest.MonkeyPatch
) -> None:
    attention, states, seen, calls = stir(MultiHeadAttention(SIZE, HEADS)), draw(2, 6, SIZE), [], []
    kernel = F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *a, **k: (calls.append(1), kernel(*a, **k))[1])
    for hook, fused in ((Only(nn.Identity(), print), 1), (Only(attention, lambda *shown: seen.append(shown)), 0)):
        calls.clear()
        attention(states, *attention.keys_values(states), hook=hook)
        assert len(calls) == fused
    ((module, weights),) = seen
    assert module is attention
    assert weights.shape == (2, HEADS, 6, 6)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("size", [1, 2 * HEADS * 5, 10**6], ids=["a query", "two", "all"])
def test_blocks_of_queries_are_the_formula(
    mask: Tensor | None, size: int, draw: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multi_head, "BLOCK", size)
    given = [draw(3, HEADS, 5, WIDTH).requires_grad_() for _ in range(3)]
    query, keys, values = given
    found, expected = (
        blockwise(query, keys, values, mask, 0.0),
        mix(attention_weights(query, keys, mask), values, 0.0),
    )
    torch.testing.assert_close(found, expected)
    slope = draw(*found.shape)
    for one, other in zip(*(torch.autograd.grad(each, given, slope) for each in (found, expected)), strict=True):
        torch.testing.assert_close(one, other)


def test_blocks_of_queries_drop_the_same_weights_in_both_passes(draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multi_head, "BLOCK", 2 * HEADS * 5)
    query, keys, values, slope = (draw(3, HEADS, 5, width) for width in (WIDTH, WIDTH, 4, 4))
    torch.manual_seed(0)
    weights = blockwise(query, keys, torch.eye(5, dtype=values.dtype).expand(3, HEADS, 5, 5), None, 0.5)  # [B, H, T, S]
    assert 0.3 < (weights == 0).double().mean() < 0.7
    torch.manual_seed(0)
    mixed = blockwise(query, keys, values.requires_grad_(), None, 0.5)
    torch.testing.assert_close(mixed, weights @ values)
    (found,) = torch.autograd.grad(mixed, values, slope)
    torch.testing.assert_close(found, weights.transpose(2, 3) @ slope)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("groups", [1, HEADS])
def test_no_pass_holds_all_weights_of_long_sources(
    dropout: float, groups: int, stir: Stir, draw: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multi_head, "BLOCK", HEADS * 64 * 4)
    attention, largest = stir(MultiHeadAttention(SIZE, HEADS, dropout=dropout, key_value_heads=groups)), [0]

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401 - torch gives any
            found = call(*args, **(kwargs or {}))
            largest.append(max((each.numel() for each in [found] if isinstance(each, Tensor)), default=0))
            return found

    states = draw(1, 64, SIZE).requires_grad_()
    with Watch():
        attention.train()(states, *attention.keys_values(states), causal=True).sum().backward()
    assert max(largest) <= HEADS * 64 * 64 // 4
