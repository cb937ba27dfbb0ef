"""Maps of a network whose encoder knows turns: tokens, turns, and the one summed over the other."""

import pytest
import torch

from dialog.analysis.maps import as_json, attention_maps, by_turn, turns_of
from dialog.models.seq2seq import Seq2Seq

PAD, TURNS = 0, (4, 5)
SMALL = {"name": "transformer", "heads": 2, "feed_forward_size": 12, "layers": 1}
LSTM = {"name": "lstm", "size": 8, "attention": {"name": "additive", "size": 8}}


def make(**changes: object) -> Seq2Seq:
    torch.manual_seed(0)
    parts = {"encoder": {"name": "hierarchical", "tokens": SMALL, "turns": SMALL}, "decoder": LSTM, **changes}
    return Seq2Seq(12, padding=PAD, embedding_size=8, turn_tokens=TURNS, **parts).eval()


@pytest.fixture
def source() -> torch.Tensor:
    return torch.tensor([[4, 7, 8, 5, 9, 2], [5, 6, 4, 2, PAD, PAD]])


def test_sums_over_turns() -> None:
    weights = torch.tensor([[[[0.1, 0.2, 0.3, 0.4]]]])
    assert by_turn(weights, torch.tensor([[0, 0, 1, 2]])).tolist() == [
        [[[pytest.approx(0.3), pytest.approx(0.3), pytest.approx(0.4)]]]
    ]


def test_a_hierarchical_encoder_shows_tokens_and_turns(source: torch.Tensor) -> None:
    model, target = make(), torch.tensor([[1, 7, 8], [1, 6, 2]])
    maps = attention_maps(model, source, source != PAD, target)
    assert [(each.name, each.kind, each.side, each.columns) for each in maps] == [
        ("encoder.tokens.layers.0.self_attention", "self", "source", "source"),
        ("encoder.turns.layers.0.self_attention", "self", "turns", "turns"),
        ("decoder.attention", "cross", "target", "source"),
        ("decoder.attention.turns", "cross", "target", "turns"),
    ]
    read, said = ["<other>", "▁I", "▁am", "<self>", "▁Oh", "</s>"], ["a", "b", "</s>"]
    shown = as_json(maps, 0, read, said, turns_of(model, source[0], 6))
    assert shown["context_turns"] == ["<other> I am", "<self> Oh</s>"]
    sizes = [torch.tensor(each["weights"]).shape for each in shown["maps"]]
    assert sizes == [(2, 6, 6), (2, 2, 2), (1, 3, 6), (1, 3, 2)]
    for each in shown["maps"]:
        weights = torch.tensor(each["weights"])
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    within = torch.tensor(shown["maps"][0]["weights"])
    assert not within[:, :3, 3:].any()
    assert not within[:, 3:, :3].any()


def test_padding_is_no_turn(source: torch.Tensor) -> None:
    maps = attention_maps(make(), source, source != PAD, torch.tensor([[1, 7], [1, 6]]))
    summed = maps[-1].weights[1]
    torch.testing.assert_close(summed.sum(-1), torch.ones(1, 2))
    torch.testing.assert_close(summed[..., 0], maps[-2].weights[1, ..., :2].sum(-1))


def test_a_flat_encoder_has_no_turns(source: torch.Tensor) -> None:
    model = make(encoder=SMALL)
    maps = attention_maps(model, source, source != PAD, torch.tensor([[1, 7], [1, 6]]))
    assert "turns" not in {each.columns for each in maps}
    assert turns_of(model, source[0], 6) == []
    assert "context_turns" not in as_json(maps, 0, list("abcdef"), ["x", "y"])


def test_without_attention_there_is_no_map(source: torch.Tensor) -> None:
    model = make(encoder={"name": "lstm", "size": 8}, decoder={**LSTM, "attention": {"name": "none"}})
    assert attention_maps(model, source, source != PAD, torch.tensor([[1, 7], [1, 6]])) == []
