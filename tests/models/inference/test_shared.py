"""Sources without their padding, and rows that share a source."""

import pytest
import torch

from dialog.models.inference.shared import RealTokens, SharedRows


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
    assert shared.parts[0].repeat_interleave(copies).tolist() == values.repeat_interleave(2)[rows].tolist()


def test_repeat_copies_nothing() -> None:
    values = torch.zeros(3, 2)
    shared = SharedRows((values,)).repeat(2).repeat(3)
    assert shared.copies == 6
    assert shared.parts[0] is values


def test_real_tokens_are_the_rows_and_padding_is_0() -> None:
    padded = torch.arange(1.0, 13.0).view(2, 3, 2)
    mask = torch.tensor([[True, True, True], [True, False, False]])
    real = RealTokens(mask)
    rows = real.rows(padded)
    assert rows.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert real.padded(rows).equal(padded * mask.unsqueeze(-1))
    whole = RealTokens(torch.ones_like(mask))
    assert whole.rows(padded).data_ptr() == padded.data_ptr()
    assert whole.padded(whole.rows(padded)).equal(padded)
