"""The examples that ParlAI's evaluation scores, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from dialog.metrics.parlai_sets import ParlaiSets, scored_by_parlai


@pytest.mark.parametrize(
    ("turns", "scored"),
    [
        ([], []),
        ([1], []),
        # the passed example is a whole episode, so the next is scored from its first
        ([1, 1], [1]),
        ([2], [1]),
        ([3], [2]),  # episodes 0 2 and 1: passes 0, scores 2, passes 1
        ([3, 2], [2, 3]),  # ... then scores 3, the first speaker's only turn, and passes 4
        ([2, 3], [1, 4]),  # passes 0, scores 1, passes 2, scores 4, passes 3
        ([4], [2, 3]),
        ([5, 4], [2, 4, 3, 7, 8]),  # first speaker's turns, then the second's
    ],
)
def test_one_example_is_passed_over_before_each_episode(
    turns: list[int], scored: list[int]
) -> None:
    assert list(scored_by_parlai(turns)) == scored


def test_sets_and_counts_in_any_batches() -> None:
    dialogues = [*"aaaaa", *"bbbb"]  # scored: 2, 4, 3, 7, 8
    nll = torch.arange(1, 10).double()
    tokens, sizes = torch.tensor([1, 2, 3] * 3).double(), torch.full((9,), 7.0).double()
    expected = {
        **{"S1": math.exp((3 + 5) / (3 + 2)), "S1_responses": 2, "S1_tokens": 5, "S1_bytes": 14},
        **{
            "S2": math.exp((3 + 5 + 4 + 8 + 9) / (3 + 2 + 1 + 2 + 3)),
            "S2_responses": 5,
            "S2_tokens": 11,
            "S2_bytes": 35,
        },
        **{"S3": math.exp(45 / 18), "S3_responses": 9, "S3_tokens": 18, "S3_bytes": 63},
    }
    metric = ParlaiSets(limit=2)
    for cuts in ([9], [5, 4], [1, 6, 2], [1] * 9):
        metric.reset()
        parts = (list(part) for part in (nll.split(cuts), tokens.split(cuts), sizes.split(cuts)))
        places = [sum(cuts[:index]) for index in range(len(cuts))]
        for one, count, size, place in zip(*parts, places, strict=True):
            metric.update(one, count, size, dialogues[place : place + len(one)])
        assert metric.compute() == pytest.approx(expected, rel=1e-12)


def test_a_limit_below_one_is_an_error() -> None:
    with pytest.raises(ValueError, match="limit is 0"):
        ParlaiSets(limit=0)
