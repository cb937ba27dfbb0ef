"""Largest elements of long rows."""

import pytest
import torch

from dialog.generation.searches import largest as module
from dialog.generation.searches.largest import PART, largest


@pytest.mark.parametrize("size", [PART - 1, 20 * PART, 20 * PART + 7])
@pytest.mark.parametrize("count", [1, 2, 10])
@pytest.mark.parametrize("excluded", [0.0, 0.5, 0.9999], ids="{} excluded".format)
def test_largest_is_topk(
    size: int, count: int, excluded: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MANY", 1)
    generator = torch.Generator().manual_seed(size + count)
    scores = torch.randn(3, 4, size, generator=generator)
    scores[torch.rand(scores.shape, generator=generator) < excluded] = -torch.inf
    beams = scores[:, 1:3]  # as in a group of a diverse beam
    values, places = largest(beams, count)
    assert values.equal(beams.topk(count, -1).values)
    assert beams.gather(-1, places).equal(values)
    assert all(len(set(row)) == count for row in places.view(-1, count).tolist())


@pytest.mark.parametrize("first", [3, 250, 20 * PART + 3])
def test_first_of_equal_elements_is_the_largest(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MANY", 1)
    scores = torch.zeros(2, 20 * PART + 7)
    scores[:, first:] = 1.0
    assert largest(scores, 1)[1].tolist() == [[first], [first]]
