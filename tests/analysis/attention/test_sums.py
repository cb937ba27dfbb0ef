"""Statistics of weights whose values are known by hand."""

import math

import pytest
import torch
from torch import Tensor

from dialog.analysis.attention.maps import AttentionMap, rollout
from dialog.analysis.attention.sums import (
    Sum,
    Totals,
    alignment_sums,
    coverage_sums,
    kind_sums,
    row_sums,
    similarities,
    turn_sums,
)

EVERY = torch.ones(1, 3, dtype=torch.bool)


def means(sums: dict[str, Sum]) -> list[dict[str, float | None]]:
    totals = Totals()
    totals.add(sums)
    totals.add(sums)  # the mean of two equal batches is that of one
    return list(totals.means())


def heads(*maps: object) -> Tensor:
    """One example with these maps as heads."""
    return torch.tensor(maps, dtype=torch.double).unsqueeze(0)


ONE_HOT = [[0.0, 0, 0, 1], [0, 1, 0, 0], [1, 0, 0, 0]]
SAME = [[1.0, 0, 0, 0]] * 3
UNIFORM = [[0.25] * 4] * 3


def test_entropy_and_sharpness_of_uniform_and_one_hot_rows() -> None:
    uniform, one_hot = means(row_sums(heads(UNIFORM, ONE_HOT), EVERY, torch.full((1, 3), 4)))
    assert uniform == {"entropy": pytest.approx(1), "sharpness": pytest.approx(0.25)}
    assert one_hot == {"entropy": 0, "sharpness": 1}


def test_rows_that_are_padding_or_see_one_column_do_not_count() -> None:
    weights = heads([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [9.0, 9, 9, 9]])
    rows, visible = torch.tensor([[True, True, False]]), torch.tensor([[1, 2, 3]])
    (head,) = means(row_sums(weights, rows, visible))
    assert head == {"entropy": pytest.approx(1), "sharpness": pytest.approx(0.75)}
    (alone,) = means(row_sums(weights, rows, torch.ones(1, 3)))
    assert alone["entropy"] is None


def test_mass_on_kinds_and_turns() -> None:
    weights = heads([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]])
    rows = torch.tensor([[True, True]])
    kinds = torch.tensor([[[1, 0], [0, 0], [1, 0], [0, 0]]]).bool()
    (head,) = means(kind_sums(weights, rows, kinds, ("even", "absent")))
    assert head == {"even": pytest.approx((0.4 + 0.6) / 2), "absent": None}
    (head,) = means(turn_sums(weights, rows, torch.tensor([[0, 1, 1, -1]])))
    assert [head[f"mass_turn_{turn}"] for turn in (1, 2, 3)] == [
        pytest.approx(0.25),
        pytest.approx(0.5),
        None,
    ]
    assert [head[f"mass_distance_{turn}"] for turn in (0, 1, 2)] == [
        pytest.approx(0.5),
        pytest.approx(0.25),
        None,
    ]


def test_the_last_distance_has_all_further_turns() -> None:
    weights = torch.full((1, 1, 1, 8), 1 / 8)
    (head,) = means(
        turn_sums(weights, torch.ones(1, 1, dtype=torch.bool), torch.arange(8).unsqueeze(0))
    )
    masses = [head[f"mass_distance_{distance}"] for distance in range(5)]
    assert masses == [pytest.approx(1 / 8)] * 4 + [pytest.approx(4 / 8)]


def test_coverage_and_repetition() -> None:
    columns = torch.ones(1, 4, dtype=torch.bool)
    one_hot, same, uniform = means(coverage_sums(heads(ONE_HOT, SAME, UNIFORM), EVERY, columns))
    assert one_hot == {"coverage": 1, "repetition": 0}
    assert same == {"coverage": pytest.approx(1 / 3), "repetition": 1}
    assert uniform == {"coverage": 1, "repetition": 1}
    partly = heads([[0.5, 0.5, 0, 0], [0.25, 0, 0.75, 0], [9, 9, 9, 9]])
    (head,) = means(coverage_sums(partly, torch.tensor([[True, True, False]]), columns))
    assert head == {
        "coverage": pytest.approx((0.75 + 0.5 + 0.75) / 2),
        "repetition": pytest.approx(0.25),
    }


def test_alignment_accuracy_and_error_rate() -> None:
    gold = torch.tensor([[0, 0, 3], [0, 1, 2]])
    right, wrong = means(alignment_sums(heads(ONE_HOT, SAME), gold, response_tokens=3))
    assert right == {"alignment_accuracy": 0.5, "alignment_error_rate": pytest.approx(1 - 2 / 5)}
    assert wrong == {"alignment_accuracy": 0, "alignment_error_rate": 1}


def test_similarity_is_the_cosine_of_rows() -> None:
    total, count = similarities(heads(ONE_HOT, SAME, UNIFORM), EVERY)
    mean = (total / count).tolist()
    assert mean[0] == [pytest.approx(1), pytest.approx(1 / 3), pytest.approx(0.5)]
    assert mean[1][2] == pytest.approx(0.25 / math.sqrt(0.25))


def test_rollout_equals_the_sum_over_all_paths() -> None:
    """A path keeps its position or follows a weight in each layer, each with probability 1/2."""
    generator = torch.Generator().manual_seed(1)

    def weights(rows: int, columns: int, *, causal: bool = False) -> Tensor:
        scores = torch.randn(1, 2, rows, columns, generator=generator, dtype=torch.double)
        return scores.masked_fill(
            ~torch.ones(rows, columns).tril().bool() if causal else torch.tensor(False), -99
        ).softmax(-1)

    layers = [("source", "self", weights(3, 3)), ("source", "self", weights(3, 3))]
    for _ in range(2):
        layers += [
            ("target", "self", weights(2, 2, causal=True)),
            ("target", "cross", weights(2, 3)),
        ]
    maps = [
        AttentionMap("", kind, side, side if kind == "self" else "source", each)
        for side, kind, each in layers
    ]

    def reach(layer: int, side: str, place: int) -> Tensor:
        """Probability of each source token at the end of a walk down from a layer."""
        if layer < 0:
            return torch.eye(3, dtype=torch.double)[place] * (side == "source")
        of, kind, each = layers[layer]
        if of != side:
            return reach(layer - 1, side, place)
        moved = torch.zeros(3, dtype=torch.double)
        for column, weight in enumerate(each.mean(1)[0, place]):
            moved += weight * reach(layer - 1, "source" if kind == "cross" else side, column)
        return (moved + reach(layer - 1, side, place)) / 2

    expected = torch.stack([reach(len(layers) - 1, "target", place) for place in range(2)])
    result = rollout(maps)
    assert result is not None
    torch.testing.assert_close(result[0], expected / expected.sum(-1, keepdim=True))


def test_rollout_of_recurrent_layers_is_the_attention_itself() -> None:
    cross = AttentionMap("decoder.attention", "cross", "target", "source", heads(ONE_HOT))
    assert torch.equal(rollout([cross]), cross.weights.squeeze(1))
    assert rollout([]) is None
