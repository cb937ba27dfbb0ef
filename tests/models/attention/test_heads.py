"""Removed heads against the formula with a mask, and importance against finite differences."""

from typing import Any

import pytest
import torch
from torch import Tensor

from dialog.analysis.attention.batch_maps import Examples
from dialog.analysis.attention.importance import (
    ablation_curve,
    head_importance,
    masked,
    negative_log_likelihoods,
)
from dialog.errors import UserError
from dialog.models.attention import MultiHeadAttention
from dialog.models.attention.heads import head_names, heads_of, remove_heads, without_heads
from dialog.models.seq2seq import Seq2Seq

PLAIN: dict[str, Any] = {"name": "transformer", "heads": 4, "feed_forward_size": 12, "layers": 2}
LSTM: dict[str, Any] = {"name": "lstm", "size": 8}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "transformer": (PLAIN, PLAIN),
    "grouped": (
        PLAIN | {"key_value_heads": 2},
        PLAIN | {"key_value_heads": 1, "norm_first": False},
    ),
    "hierarchical": ({"name": "hierarchical", "tokens": PLAIN, "turns": PLAIN}, PLAIN),
    "bahdanau": (LSTM, LSTM | {"attention": {"name": "multi_head", "heads": 4}}),
    "mean": (LSTM, LSTM | {"attention": {"name": "multi_head", "heads": 2, "join": "mean"}}),
    "max": (LSTM, LSTM | {"attention": {"name": "multi_head", "heads": 2, "join": "max"}}),
    "luong": (
        PLAIN,
        LSTM | {"name": "lstm_luong", "attention": {"name": "multi_head", "heads": 2}},
    ),
}


def make(encoder: dict[str, Any], decoder: dict[str, Any]) -> Seq2Seq:
    torch.manual_seed(3)
    parts = {"encoder": encoder, "decoder": decoder}
    return Seq2Seq(12, padding=0, embedding_size=8, turn_tokens=(4, 5), **parts).double().eval()


@pytest.fixture(params=CASES.values(), ids=list(CASES))
def model(request: pytest.FixtureRequest) -> Seq2Seq:
    return make(*request.param)


@pytest.fixture
def batch() -> Examples:
    source = torch.tensor([[4, 7, 5, 8, 2], [5, 9, 2, 0, 0]])
    return Examples(source, torch.tensor([[1, 7, 9, 2], [1, 6, 2, 0]]))


def with_masks(model: Seq2Seq, batch: Examples, masks: dict[str, Tensor]) -> Tensor:
    slices = heads_of(model)
    every = {name: torch.ones(2, one.heads).double() for name, one in slices.items()}
    with torch.no_grad(), masked(slices, every | masks):
        return negative_log_likelihoods(model, batch)


@torch.no_grad()
def test_a_removed_head_is_a_mask_of_zero(model: Seq2Seq, batch: Examples) -> None:
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    whole = negative_log_likelihoods(model, batch)
    torch.testing.assert_close(with_masks(model, batch, {}), whole)
    for name, one in heads_of(model).items():
        for head in (0, one.heads - 1):
            mask = torch.ones(2, one.heads).double()
            mask[:, head] = 0
            with without_heads(model, [f"{name}.{head}"]):
                removed = negative_log_likelihoods(model, batch)
            torch.testing.assert_close(removed, with_masks(model, batch, {name: mask}))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("kept", [[], [1], [0, 2, 3]])
def test_removed_heads_leave_their_part_of_the_output_empty(kept: list[int]) -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(8, 4).double()
    torch.nn.init.normal_(attention.output.bias)
    states = torch.randn(2, 5, 8).double()
    keys, values = attention.keys_values(states)
    heads = [
        (
            (states @ attention.query.weight.T).unflatten(-1, (4, 2))[:, :, head]
            @ keys[:, head].mT
            / 2**0.5
        ).softmax(-1)
        @ values[:, head]
        for head in range(4)
    ]
    joined = torch.cat([one * (head in kept) for head, one in enumerate(heads)], -1)
    expected = joined @ attention.output.weight.T + attention.output.bias
    remove_heads(
        torch.nn.ModuleDict({"a": attention}),
        [f"a.{head}" for head in range(4) if head not in kept],
    )
    torch.testing.assert_close(attention(states, keys, values), expected)
    if not kept:
        assert torch.equal(attention(states, keys, values), attention.output.bias.expand(2, 5, 8))


def test_importance_is_the_mean_change_of_the_loss_with_the_mask(
    model: Seq2Seq, batch: Examples
) -> None:
    step = 1e-5
    measured = head_importance(model, [batch])
    assert [one.name for one in measured] == head_names(model)
    for one in measured:
        up, down = (torch.ones(2, heads_of(model)[one.module].heads).double() for _ in range(2))
        up[:, one.head] += step
        down[:, one.head] -= step
        change = with_masks(model, batch, {one.module: up}) - with_masks(
            model, batch, {one.module: down}
        )
        assert one.importance == pytest.approx(
            (change / (2 * step)).abs().mean().item(), rel=1e-4, abs=1e-9
        )
    for module in heads_of(model):
        assert sum(one.normalised**2 for one in measured if one.module == module) == pytest.approx(
            1
        )


def test_a_curve_removes_all_heads_in_order_and_restores_them(batch: Examples) -> None:
    model = make(*CASES["transformer"])
    order = head_names(model)[::-1]

    def score() -> float:
        return float(negative_log_likelihoods(model, batch).detach().sum())

    whole = score()
    curve = ablation_curve(model, order, score)
    assert [point["removed"] for point in curve] == list(range(len(order) + 1))
    assert [point["heads_left"] for point in curve] == list(range(len(order) + 1))[::-1]
    assert curve[0]["bits_per_byte"] == whole == score()
    with without_heads(model, order):
        assert curve[-1]["bits_per_byte"] == score() != whole


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "decoder.layers.0.cross_attention.4",
            "did you mean 'decoder.layers.0.cross_attention.0-3'",
        ),
        (
            "decoder.layers.7.cross_atention.1",
            "did you mean 'decoder.layers.[01].cross_attention.0-3'",
        ),
    ],
)
def test_unknown_heads(name: str, message: str) -> None:
    model = make(*CASES["transformer"])
    with pytest.raises(UserError, match=f"unknown head {name!r}; {message}"):
        remove_heads(model, [name])


@pytest.mark.parametrize("attention", [{"name": "additive", "size": 5}, {"name": "none"}])
def test_a_single_head_cannot_be_removed(attention: dict[str, Any]) -> None:
    model = make(LSTM, LSTM | {"attention": attention})
    assert head_names(model) == []
    with pytest.raises(UserError, match="no multi-head attention"):
        remove_heads(model, ["decoder.attention.0"])
