"""Rows that share a source."""

import pytest
import torch

from dialog.models.inference.shared import SharedRows


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
