from __future__ import annotations

import pytest
import torch
from torch import nn

from dialog.analysis.attention.alignment import AlignmentCounts


class Toy(nn.Module):
    """Modules with the names of a network's; the encoder has an attention of the user's own too."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.ModuleDict({"self_attention": nn.Identity(), "own": nn.Identity()})
        self.decoder = nn.ModuleDict(
            {"self_attention": nn.Identity(), "cross_attention": nn.Identity()}
        )

    @property
    def members(self) -> tuple[nn.Module, ...]:
        return (self,)


class Pair(nn.Module):
    """Modules with the names of an ensemble's."""

    def __init__(self) -> None:
        super().__init__()
        self.networks = nn.ModuleList([Toy(), Toy()])
        self.members = tuple(self.networks)


def test_heads_of_an_ensemble_are_those_of_its_decoders() -> None:
    pair, accuracy = Pair(), AlignmentCounts()
    hook = accuracy.hook(pair, {0: {0: 1}})
    for toy in pair.networks:
        for module in (*toy.encoder.values(), *toy.decoder.values()):
            hook(module, torch.eye(2).roll(1, 0)[None, None])
    assert list(accuracy.hits) == [
        f"networks.{number}.decoder.cross_attention.0" for number in (0, 1)
    ]


def test_accuracy_of_hand_made_weights() -> None:
    toy, accuracy = Toy(), AlignmentCounts()
    weights = torch.zeros(2, 2, 3, 4)  # [B, H, T, S]
    # head 0: right, right, right
    weights[0, 0, 0, 2] = weights[0, 0, 2, 1] = weights[1, 0, 1, 3] = 1
    # head 1: right, wrong, wrong
    weights[0, 1, 0, 2] = weights[0, 1, 2, 0] = weights[1, 1, 1, 0] = 1
    weights[1, :, 0, 3] = 1
    hook = accuracy.hook(toy, {5: {0: 2, 2: 1}, 3: {1: 3}})
    hook(toy.decoder["cross_attention"], weights)
    for ignored in (*toy.encoder.values(), toy.decoder["self_attention"]):
        hook(ignored, weights)
    assert accuracy.metrics() == {
        "copied_tokens": 3,
        "alignment_accuracy": 1.0,
        "alignment_head": "decoder.cross_attention.0",
        "alignment_heads": {
            "decoder.cross_attention.0": 1.0,
            "decoder.cross_attention.1": pytest.approx(1 / 3),
        },
    }
    second = accuracy.hook(toy, {0: {}, 1: {0: 1}})  # a second batch, without a hit
    second(toy.decoder["cross_attention"], weights.flip(-1))
    assert accuracy.metrics()["copied_tokens"] == 4
    assert accuracy.metrics()["alignment_accuracy"] == pytest.approx(3 / 4)
    assert accuracy.statistics(6).tolist() == [[0, 0], [0, 1], [0, 0], [1, 1], [0, 0], [2, 2]]


def test_no_metrics_without_gold_alignment_or_attention() -> None:
    accuracy = AlignmentCounts()
    assert accuracy.metrics() == {}
    accuracy.hook(Toy(), {0: {0: 2}})  # a network without attention never calls the hook
    assert accuracy.metrics() == {}
