"""Deletion, masking and shuffling have their probabilities and bounds."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from dialog.data.tokenizers.tokenizer import EOS, PAD, UNK
from dialog.training.objectives import noised

Words = Callable[[Tensor], list[int]]


@pytest.fixture
def clean() -> Tensor:
    """1,000 rows of 20 distinct ids and 1,000 of 12."""
    long = torch.arange(10, 30).repeat(1000, 1)
    end = torch.full((1000, 1), EOS)
    short = torch.cat([long[:, :12], end, torch.full((1000, 8), PAD)], 1)
    return torch.cat([torch.cat([long, end], 1), short])


def test_no_noise_changes_nothing(clean: Tensor) -> None:
    assert torch.equal(noised(clean, deletion=0.0, masking=0.0, distance=0), clean)


def test_deletion_keeps_the_order(clean: Tensor, words: Words) -> None:
    torch.manual_seed(1)
    rows = [words(row) for row in noised(clean, deletion=0.3, masking=0.0, distance=0)]
    assert all(row == sorted(row) and len(row) == len(set(row)) for row in rows)
    assert sum(map(len, rows)) / 32_000 == pytest.approx(0.7, abs=0.01)
    rates = [sum(token in row for row in rows[:1000]) / 1000 for token in range(10, 30)]
    assert rates == pytest.approx([0.7] * 20, abs=0.06)  # at every position
    assert not any(words(row) for row in noised(clean, deletion=1.0, masking=0.0, distance=0))


def test_masking_keeps_positions(clean: Tensor) -> None:
    torch.manual_seed(1)
    rows = noised(clean, deletion=0.0, masking=0.2, distance=0)
    masked = rows == UNK
    assert torch.equal(rows.where(~masked, clean), clean)
    assert masked.sum().item() / 32_000 == pytest.approx(0.2, abs=0.01)
    assert not masked[clean == EOS].any()


@pytest.mark.parametrize("distance", [1, 3])
def test_no_token_moves_further_than_the_distance(
    clean: Tensor, words: Words, distance: int
) -> None:
    torch.manual_seed(1)
    moves = []
    for row, original in zip(
        noised(clean, deletion=0.0, masking=0.0, distance=distance), clean, strict=True
    ):
        shuffled = words(row)
        assert sorted(shuffled) == words(original)
        moves += [abs(place - (token - 10)) for place, token in enumerate(shuffled)]
    assert max(moves) == distance
    assert sum(map(bool, moves)) / len(moves) > 0.2
    for row in noised(clean, deletion=0.3, masking=0.0, distance=distance):
        kept = words(row)
        assert (
            max(
                (abs(place - sorted(kept).index(token)) for place, token in enumerate(kept)),
                default=0,
            )
            <= distance
        )
