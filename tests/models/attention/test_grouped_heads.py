"""Grouped heads, turned queries and hooks for one module, in float64."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.models.attention import MultiHeadAttention
from dialog.models.contracts import Only, meant_for

SIZE, HEADS, WIDTH = 12, 6, 2
Stir = Callable[[nn.Module], nn.Module]
Draw = Callable[..., Tensor]

MASKS = {
    "none": None,
    "padding": (torch.arange(5) < torch.tensor([[5], [2], [1]]))[:, None, None],
    "no real token": (torch.arange(5) < torch.tensor([[5], [0], [1]]))[:, None, None],
    "per head": torch.arange(3 * HEADS * 5 * 5).reshape(3, HEADS, 5, 5) % 3 > 0,
}


def copied(weight: Tensor, groups: int) -> Tensor:
    """Repeat the rows of each group for every head that reads it."""
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
        (lambda _, weights, mine=mine: shown.update({mine: weights})) if hooked else None
        for mine in (True, False)
    ]
    keys, values = ours.keys_values(states)
    assert keys.shape == values.shape == (3, groups, 5, WIDTH)
    output = ours(states, keys, values, mask, causal, hooks[0])

    named = dict(ours.named_parameters())
    named |= {
        name: copied(named[name], groups) for name in named if name.startswith(("key.", "value."))
    }
    keys, values = (
        F.linear(states, named[f"{name}.weight"], named[f"{name}.bias"])
        .unflatten(-1, (HEADS, WIDTH))
        .transpose(1, 2)
        for name in ("key", "value")
    )
    expected = torch.func.functional_call(
        plain, named, (states, keys, values, mask, causal, hooks[1])
    )
    agree([output], [expected], [states, *ours.parameters()])
    if hooked:
        assert shown[True].shape == (3, HEADS, 5, 5)
        torch.testing.assert_close(shown[True], shown[False], rtol=0, atol=1e-12)


def test_one_group_per_head_is_plain_attention() -> None:
    torch.manual_seed(0)
    plain = MultiHeadAttention(SIZE, HEADS)
    torch.manual_seed(0)
    grouped = MultiHeadAttention(SIZE, HEADS, key_value_heads=HEADS)
    torch.testing.assert_close(grouped.state_dict(), plain.state_dict(), rtol=0, atol=0)


def test_grouped_heads_have_smaller_keys_and_values() -> None:
    shapes = {
        name: tuple(each.shape)
        for name, each in MultiHeadAttention(12, 6, key_value_heads=2).named_parameters()
    }
    assert shapes == {
        "query.weight": (12, 12), "query.bias": (12,), "key.weight": (4, 12), "key.bias": (4,),
        "value.weight": (4, 12), "value.bias": (4,), "output.weight": (12, 12), "output.bias": (12,),
    }  # fmt: skip


@pytest.mark.parametrize("groups", [4, 0, -1, 12])
def test_groups_must_divide_the_heads(groups: int) -> None:
    with pytest.raises(
        ValueError, match=rf"^heads 6 is not a multiple of {groups} key_value_heads$"
    ):
        MultiHeadAttention(12, 6, key_value_heads=groups)


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "bfloat16 by the formula"])
def test_grouped_heads_step_by_step(
    fused: bool, draw: Draw, stir: Stir, monkeypatch: pytest.MonkeyPatch
) -> None:
    attention, states = stir(MultiHeadAttention(SIZE, HEADS, key_value_heads=2)), draw(2, 6, SIZE)
    keys, values = attention.keys_values(states)
    whole = attention(states, keys, values, causal=True)
    if not fused:
        monkeypatch.setattr(
            "dialog.models.attention.multi_head._formula_is_faster", lambda *_: True
        )
        monkeypatch.setattr(F, "scaled_dot_product_attention", None)
    for past in range(6):
        rest = attention(states[:, past:], keys, values, causal=True)
        torch.testing.assert_close(rest, whole[:, past:], rtol=0, atol=1e-12)


def test_keys_are_copied_for_a_kernel_without_groups(
    draw: Draw, stir: Stir, monkeypatch: pytest.MonkeyPatch
) -> None:
    attention, states = stir(MultiHeadAttention(SIZE, HEADS, key_value_heads=2)), draw(2, 6, SIZE)
    expected = attention(states, *attention.keys_values(states))
    monkeypatch.setattr(
        "dialog.models.attention.multi_head._kernel_supports_groups", lambda _: False
    )
    torch.testing.assert_close(
        attention(states, *attention.keys_values(states)), expected, rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("hook", [None, lambda *_: None], ids=["fused", "hooked"])
def test_turn_applies_to_the_projected_query(
    hook: Callable[..., None] | None, draw: Draw, stir: Stir
) -> None:
    attention, states = stir(MultiHeadAttention(SIZE, HEADS)), draw(2, 6, SIZE)
    keys, values = attention.keys_values(states)
    seen: list[torch.Size] = []

    def turn(heads: Tensor) -> Tensor:
        seen.append(heads.shape)
        return -2 * heads

    output = attention(states, keys, values, hook=hook, turn=turn)
    assert seen == [(2, HEADS, 6, WIDTH)]
    with torch.no_grad():
        attention.query.weight *= -2
        attention.query.bias *= -2
    torch.testing.assert_close(output, attention(states, keys, values), rtol=0, atol=1e-12)


def test_a_hook_for_one_module_ignores_others() -> None:
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
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda *a, **k: (calls.append(1), kernel(*a, **k))[1]
    )
    for hook, fused in (
        (Only(nn.Identity(), print), 1),
        (Only(attention, lambda *shown: seen.append(shown)), 0),
    ):
        calls.clear()
        attention(states, *attention.keys_values(states), hook=hook)
        assert len(calls) == fused
    ((module, weights),) = seen
    assert module is attention
    assert weights.shape == (2, HEADS, 6, 6)
