"""Sources without their padding, and rows that share a source."""

import pytest
import torch

from dialog.models.state import SharedRows
from dialog.models.transformer.real_tokens import RealTokens


@pytest.mark.parametrize(
    ("rows", "copies"),
    [
        ([0, 1, 2, 3, 4, 5], 2),
        ([1, 0, 2, 3, 4, 4], 2),  # a beam that is reordered
        ([2, 2, 0, 1], 2),  # a source that is removed, and another order
        ([0, 2, 4], 1),  # one row of each source
        ([0, 1, 2, 4], 1),  # two of one, one each of the others
    ],
)
def test_selected_rows_have_their_own_source(rows: list[int], copies: int) -> None:
    values = torch.tensor([10.0, 11.0, 12.0])
    shared = SharedRows((values,)).repeat(2).select(torch.tensor(rows))
    assert shared.copies == copies
    assert (
        shared.parts[0].repeat_interleave(copies).tolist()
        == values.repeat_interleave(2)[rows].tolist()
    )


def test_repeat_copies_nothing() -> None:
    values = torch.zeros(3, 2)
    shared = SharedRows((values,)).repeat(2).repeat(3)
    assert shared.copies == 6
    assert shared.parts[0] is values


@pytest.mark.parametrize(
    ("multiple", "rows"), [(1, [0, 1, 2, 3, 6]), (4, [0, 1, 2, 3, 6, 4, 5, 7])]
)
def test_rows_are_the_real_tokens_and_some_padding(
    multiple: int, rows: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dialog.models.transformer.real_tokens.ROWS", multiple)
    padded = torch.arange(9.0).view(3, 3, 1)
    real = RealTokens(torch.tensor([[1, 1, 1], [1, 0, 0], [1, 0, 0]]) == 1)
    assert real.rows(padded).flatten().tolist() == rows
    back = real.padded(real.rows(padded)).flatten()
    assert back.tolist() == [place if place in rows else 0 for place in range(9)]


def test_tokens_without_enough_padding_are_not_copied() -> None:
    padded = torch.zeros(3, 3, 1)
    real = RealTokens(torch.tensor([[1, 1, 1], [1, 0, 0], [1, 0, 0]]) == 1)
    assert (
        real.rows(padded).data_ptr()
        == real.padded(real.rows(padded)).data_ptr()
        == padded.data_ptr()
    )
