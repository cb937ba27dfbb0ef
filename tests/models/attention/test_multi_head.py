"""Multi-head attention against torch's own, in float64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from operations import Operations
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from dialog.models.attention import MultiHeadAttention
from dialog.models.attention.multi_head import causal_mask

FORMATS = [torch.float64, torch.float32, torch.bfloat16, torch.float16]

CASES = {
    "self": {},
    "cross": {"keys": 7},
    "padding": {"padding": True},
    "padding cross": {"keys": 7, "padding": True},
    "causal": {"causal": True},
    "causal and padding": {"causal": True, "padding": True},
    "one head": {"heads": 1, "causal": True, "padding": True},
    "a head for each number": {"heads": 8, "padding": True},
    "one query": {"queries": 1, "keys": 5, "padding": True},
    "one token": {"queries": 1, "causal": True},
    "no bias": {"bias": False, "keys": 7, "padding": True},
}
SIZE, ROWS = 8, 3


def in_torchs_names(ours: MultiHeadAttention) -> dict[str, Tensor]:
    """Our weights packed as in torch, [Wq; Wk; Wv], so that the gradients of both arrive in
    ours.
    """
    thirds = (ours.query, ours.key, ours.value)
    named = {
        "in_proj_weight": torch.cat([layer.weight for layer in thirds]),
        "out_proj.weight": ours.output.weight,
    }
    if ours.output.bias is not None:
        named |= {
            "in_proj_bias": torch.cat([layer.bias for layer in thirds]),
            "out_proj.bias": ours.output.bias,
        }
    return named


@pytest.mark.parametrize("hooked", [False, True], ids=["fused", "hooked"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_multi_head_attention_agrees_with_torch(
    case: dict[str, Any],
    hooked: bool,
    draw: Callable[..., Tensor],
    stir: Callable[[nn.Module], nn.Module],
    agree: Callable[..., None],
) -> None:
    heads, bias, causal = case.get("heads", 2), case.get("bias", True), case.get("causal", False)
    ours = stir(MultiHeadAttention(SIZE, heads, bias=bias))
    query = draw(ROWS, case.get("queries", 6), SIZE).requires_grad_()
    states = draw(ROWS, case["keys"], SIZE).requires_grad_() if "keys" in case else query
    length = states.shape[1]
    mask = torch.arange(length) < torch.tensor([length, max(1, length // 2), 1]).unsqueeze(1)
    padding = case.get("padding", False)

    seen: list[tuple[nn.Module, Tensor]] = []
    hook = (lambda module, weights: seen.append((module, weights))) if hooked else None
    output = ours(
        query, *ours.keys_values(states), mask[:, None, None] if padding else None, causal, hook
    )
    theirs = nn.MultiheadAttention(SIZE, heads, bias=bias, batch_first=True).double()
    named = in_torchs_names(ours)
    assert named.keys() == dict(theirs.named_parameters()).keys()
    masks = {  # torch: True = hidden
        "key_padding_mask": ~mask if padding else None,
        "attn_mask": torch.ones(length, length).triu(1).bool() if causal else None,
    }
    expected, weights = torch.func.functional_call(
        theirs,
        named,
        (query, states, states),
        {"need_weights": True, "average_attn_weights": False, **masks},
    )
    agree([output], [expected], [*{query, states}, *ours.parameters()])
    if hooked:
        ((module, shown),) = seen
        assert module is ours
        torch.testing.assert_close(shown, weights, rtol=0, atol=1e-12)


def test_the_last_query_sees_all_keys(
    draw: Callable[..., Tensor], stir: Callable[[nn.Module], nn.Module]
) -> None:
    attention, states = stir(MultiHeadAttention(8, 2)), draw(2, 6, 8)
    keys, values = attention.keys_values(states)
    whole = attention(states, keys, values, causal=True)
    for past in range(6):
        for hook in (None, lambda *_: None):
            rest = attention(states[:, past:], keys, values, causal=True, hook=hook)
            torch.testing.assert_close(rest, whole[:, past:], rtol=0, atol=1e-12)
    seen: list[Tensor] = []
    attention(
        states[:, 4:], keys, values, causal=True, hook=lambda _, weights: seen.append(weights)
    )
    assert (seen[0] > 0).tolist() == [[[[True] * 5 + [False], [True] * 6]] * 2] * 2
    assert causal_mask(2, 4, torch.device("cpu")).tolist() == [
        [True, True, True, False],
        [True] * 4,
    ]


def test_hook_gets_the_weights_before_dropout(
    draw: Callable[..., Tensor], stir: Callable[[nn.Module], nn.Module]
) -> None:
    attention = stir(MultiHeadAttention(8, 2, dropout=0.5))
    plain = stir(MultiHeadAttention(8, 2))
    states, seen = draw(2, 5, 8), []
    keys, values = attention.keys_values(states)
    expected = plain(states, keys, values)

    def hook(_: nn.Module, weights: Tensor) -> None:
        seen.append(weights)

    for each in (None, hook):
        torch.testing.assert_close(
            attention.eval()(states, keys, values, hook=each), expected, rtol=0, atol=1e-12
        )
        torch.manual_seed(0)
        assert (attention.train()(states, keys, values, hook=each) - expected).abs().max() > 0.1
    torch.manual_seed(0)
    dropped = attention.train()(states, keys, values, hook=hook)
    for weights in seen:
        torch.testing.assert_close(
            weights.sum(-1), torch.ones(2, 2, 5).double(), rtol=0, atol=1e-12
        )
        torch.testing.assert_close(weights, seen[0], rtol=0, atol=0)
    torch.manual_seed(0)
    mixed = F.dropout(seen[0], 0.5) @ values
    by_hand = attention.output(torch.cat([mixed[:, 0], mixed[:, 1]], -1))
    torch.testing.assert_close(dropped, by_hand, rtol=0, atol=1e-12)


def test_fused_dropout_keeps_the_mean(
    draw: Callable[..., Tensor], stir: Callable[[nn.Module], nn.Module]
) -> None:
    attention, states = stir(MultiHeadAttention(4, 1, dropout=0.3)).train(), draw(1, 5, 4)
    keys, values = (each.expand(20000, -1, -1, -1) for each in attention.keys_values(states))
    torch.manual_seed(0)
    mean = attention(states.expand(20000, -1, -1), keys, values).mean(0)
    torch.testing.assert_close(
        mean, attention.eval()(states, keys[:1], values[:1])[0], rtol=0, atol=0.02
    )


@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize("dtype", FORMATS)
def test_a_row_without_real_tokens_gives_the_output_bias(
    dtype: torch.dtype,
    hooked: bool,
    draw: Callable[..., Tensor],
    stir: Callable[[nn.Module], nn.Module],
) -> None:
    attention = stir(MultiHeadAttention(8, 2)).to(dtype)
    states = draw(2, 4, 8).to(dtype).requires_grad_()
    mask = torch.tensor([[1, 1, 0, 0], [0, 0, 0, 0]]).bool()[:, None, None]
    output = attention(
        states, *attention.keys_values(states), mask, hook=(lambda *_: None) if hooked else None
    )
    output.float().square().sum().backward()
    assert output.isfinite().all()
    torch.testing.assert_close(output[1], attention.output.bias.expand(4, -1))
    for leaf in (states, *attention.parameters()):
        assert leaf.grad is not None
        assert leaf.grad.isfinite().all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("autocast", [False, True])
def test_bfloat16_on_a_cpu_uses_the_formula(
    causal: bool,
    autocast: bool,
    draw: Callable[..., Tensor],
    stir: Callable[[nn.Module], nn.Module],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attention, states = stir(MultiHeadAttention(16, 4)).float(), draw(3, 9, 16).float()
    mask = (torch.arange(9) < torch.tensor([[9], [5], [1]]))[:, None, None]
    expected = attention(states, *attention.keys_values(states), mask, causal)
    monkeypatch.setattr(F, "scaled_dot_product_attention", None)
    if not autocast:
        attention, states = attention.bfloat16(), states.bfloat16()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        output = attention(states, *attention.keys_values(states), mask, causal)
    assert output.dtype is torch.bfloat16
    torch.testing.assert_close(
        output.float(), expected, rtol=0.03, atol=0.03 * expected.abs().max().item()
    )


# of the fallback without a fused kernel
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype")
@pytest.mark.parametrize("groups", [None, 2], ids=["own", "grouped"])
def test_right_padding_needs_no_mask(
    groups: int | None,
    draw: Callable[..., Tensor],
    stir: Callable[[nn.Module], nn.Module],
    agree: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As for long rows on a GPU; a row may have no padding, and one no token."""
    attention, states = stir(MultiHeadAttention(16, 4, key_value_heads=groups)), draw(4, 9, 16)
    states.requires_grad_()
    real = torch.arange(9) < torch.tensor([[9], [5], [1], [0]])
    leaves = [states, *attention.parameters()]

    def outputs() -> Tensor:
        keys, values = attention.keys_values(states)
        mask = real[:, None, None]
        mixed = attention(states, keys, values, mask, right_padded=True)
        return mixed.masked_fill(~real.unsqueeze(-1), 0.0)

    expected = outputs()
    monkeypatch.setattr("dialog.models.attention.multi_head.is_long", lambda query: True)
    agree([outputs()], [expected], leaves)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_long_rows_use_flash_attention_and_wait_for_nothing(
    dropout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the meta device torch chooses the kernel as on a GPU if FLOPs are counted; values cannot
    be read there.
    """
    monkeypatch.setattr("dialog.models.attention.multi_head.is_long", lambda query: True)
    ran: list[str] = []
    with torch.device("meta"):
        attention = MultiHeadAttention(64, 4, dropout=dropout).bfloat16()
        states = torch.empty(3, 600, 64, dtype=torch.bfloat16, requires_grad=True)
        mask = torch.empty(3, 1, 1, 600, dtype=torch.bool)
    with FlopCounterMode(display=False), Operations(lambda done: ran.append(str(done.call))):
        keys, values = attention.keys_values(states)
        attention(states, keys, values, mask, right_padded=True).sum().backward()
    assert [name for name in ran if "attention" in name] == [
        "aten._flash_attention_forward.default",
        "aten._flash_attention_backward.default",
    ]
    assert all(leaf.grad is not None for leaf in (states, *attention.parameters()))


@pytest.mark.parametrize("heads", [3, 0, -2])
def test_heads_must_divide_the_size(heads: int) -> None:
    with pytest.raises(ValueError, match=rf"size 8 is not a multiple of {heads} heads"):
        MultiHeadAttention(8, heads)
