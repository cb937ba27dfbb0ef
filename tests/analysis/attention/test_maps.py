"""Maps over tokens and over turns."""

import pytest
import torch

from dialog.analysis.attention.batch_maps import Examples
from dialog.analysis.attention.maps import (
    attention_maps,
    maps_with_tokens,
    rollout,
    sum_by_turn,
    turn_indices,
)
from dialog.analysis.attention.statistics import statistics
from dialog.analysis.attention.token_kinds import TokenKinds
from dialog.models.inference.ensemble import Ensemble
from dialog.models.seq2seq import Seq2Seq

PAD, TURNS = 0, (4, 5)
SMALL = {"name": "transformer", "heads": 2, "feed_forward_size": 12, "layers": 1}
LSTM = {"name": "lstm", "size": 8, "attention": {"name": "additive", "size": 8}}


def make(**changes: object) -> Seq2Seq:
    torch.manual_seed(0)
    parts = {
        "encoder": {"name": "hierarchical", "tokens": SMALL, "turns": SMALL},
        "decoder": LSTM,
        **changes,
    }
    return Seq2Seq(12, padding=PAD, embedding_size=8, turn_tokens=TURNS, **parts).eval()


@pytest.fixture
def source() -> torch.Tensor:
    return torch.tensor([[4, 7, 8, 5, 9, 2], [5, 6, 4, 2, PAD, PAD]])


def test_sums_over_turns() -> None:
    weights = torch.tensor([[[[0.1, 0.2, 0.3, 0.4]]]])
    assert sum_by_turn(weights, torch.tensor([[0, 0, 1, 2]])).tolist() == [
        [[[pytest.approx(0.3), pytest.approx(0.3), pytest.approx(0.4)]]]
    ]


def test_a_hierarchical_encoder_has_token_and_turn_maps(source: torch.Tensor) -> None:
    model, target = make(), torch.tensor([[1, 7, 8], [1, 6, 2]])
    maps = attention_maps(model, source, source != PAD, target)
    assert [entry[:4] for entry in maps] == [
        ("encoder.tokens.layers.0.self_attention", "self", "source", "source"),
        ("encoder.turns.layers.0.self_attention", "self", "turns", "turns"),
        ("decoder.attention", "cross", "target", "source"),
        ("decoder.attention.turns", "cross", "target", "turns"),
    ]
    context, response = ["<other>", "▁I", "▁am", "<self>", "▁Oh", "</s>"], ["a", "b", "</s>"]
    result = maps_with_tokens(maps, 0, context, response, turn_indices(model, source[0], 6))
    assert result["context_turns"] == ["<other> I am", "<self> Oh</s>"]
    weights = [torch.tensor(entry["weights"]) for entry in result["maps"]]
    assert [array.shape for array in weights] == [(2, 6, 6), (2, 2, 2), (1, 3, 6), (1, 3, 2)]
    for array in weights:
        torch.testing.assert_close(array.sum(-1), torch.ones(array.shape[:-1]))
    within = weights[0]
    assert not within[:, :3, 3:].any()
    assert not within[:, 3:, :3].any()


def test_maps_of_an_ensemble_are_those_of_its_networks(source: torch.Tensor) -> None:
    """With their axes and statistics; each rollout stays within its network, and the ensemble's is
    their mean.
    """
    target = torch.tensor([[1, 7, 8], [1, 6, 2]])
    networks = [make(encoder=SMALL, decoder=SMALL), make(), make(decoder=SMALL)]
    ensemble = Ensemble(networks)
    expected, rollouts, rows = [], [], []
    batch, kinds = (
        Examples(source, torch.cat([target, target[:, :1]], 1)),
        TokenKinds(torch.zeros(12).bool()),
    )
    for number, network in enumerate(networks):
        prefix = f"networks.{number}."
        own = attention_maps(network, source, source != PAD, target)
        expected += [(prefix + one.name, *one[1:5], prefix) for one in own]
        rollouts.append(rollout(own))
        rows += [
            {**row, "module": prefix + row["module"]}
            for row in statistics(network, [batch], kinds)["rows"]
        ]
    maps = attention_maps(ensemble, source, source != PAD, target)
    assert [(*one[:4], one.network) for one in maps] == [(*one[:4], one[5]) for one in expected]
    for one, other in zip(maps, expected, strict=True):
        torch.testing.assert_close(one.weights, other[4])
    torch.testing.assert_close(rollout(maps), sum(rollouts) / 3)
    reading = maps_with_tokens(
        maps, 0, list("abcdef"), list("xyz"), turn_indices(ensemble, source[0], 6)
    )
    assert reading["context_turns"] == ["abc", "def"]
    for array in (torch.tensor(entry["weights"]) for entry in reading["maps"]):
        torch.testing.assert_close(array.sum(-1), torch.ones(array.shape[:-1]))
    measured = {
        (row["module"], row["head"]): row["entropy"]
        for row in statistics(ensemble, [batch], kinds)["rows"]
    }
    names = {one.name for one in maps}
    entropies = {
        (row["module"], row["head"]): row["entropy"] for row in rows if row["module"] in names
    }
    assert {key: measured[key] for key in entropies} == pytest.approx(entropies)


def test_padding_belongs_to_no_turn(source: torch.Tensor) -> None:
    maps = attention_maps(make(), source, source != PAD, torch.tensor([[1, 7], [1, 6]]))
    summed = maps[-1].weights[1]
    torch.testing.assert_close(summed.sum(-1), torch.ones(1, 2))
    torch.testing.assert_close(summed[..., 0], maps[-2].weights[1, ..., :2].sum(-1))


def test_a_flat_encoder_has_no_turn_maps(source: torch.Tensor) -> None:
    model = make(encoder=SMALL)
    maps = attention_maps(model, source, source != PAD, torch.tensor([[1, 7], [1, 6]]))
    assert "turns" not in {entry.columns for entry in maps}
    assert turn_indices(model, source[0], 6) == []
    assert "context_turns" not in maps_with_tokens(maps, 0, list("abcdef"), ["x", "y"])


def test_without_attention_there_is_no_map(source: torch.Tensor) -> None:
    model = make(
        encoder={"name": "lstm", "size": 8}, decoder={**LSTM, "attention": {"name": "none"}}
    )
    assert attention_maps(model, source, source != PAD, torch.tensor([[1, 7], [1, 6]])) == []
