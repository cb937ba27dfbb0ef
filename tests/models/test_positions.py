"""Sinusoidal positions against their formula."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from dialog.models.positions import SinusoidalPositions


def table(length: int, size: int) -> list[list[float]]:
    """P[t, 2i] = sin(t / 10000^(2i / D)), p[t, 2i + 1] = cos(t / 10000^(2i / D)), number by number."""
    return [
        [(math.cos if d % 2 else math.sin)(t / 10000 ** ((d - d % 2) / size)) for d in range(size)]
        for t in range(length)
    ]


@pytest.mark.parametrize("size", [1, 2, 7, 8, 64, 65])
def test_positions_are_their_formula(size: int) -> None:
    found = SinusoidalPositions(size)(torch.zeros(2, 300, size, dtype=torch.float64))
    expected = torch.tensor(table(300, size), dtype=torch.float64)
    torch.testing.assert_close(found, expected.expand(2, -1, -1), rtol=0, atol=1e-12)


def test_positions_are_added(draw: Callable[..., Tensor]) -> None:
    positions, inputs = SinusoidalPositions(6), draw(2, 5, 6)
    torch.testing.assert_close(positions(inputs) - inputs, positions(torch.zeros_like(inputs)), rtol=0, atol=1e-15)


@pytest.mark.parametrize("offset", [0, 1, 4, 9])
def test_an_offset_goes_on_where_the_table_stands(offset: int, draw: Callable[..., Tensor]) -> None:
    positions, inputs = SinusoidalPositions(7), draw(2, 10, 7)
    assert torch.equal(positions(inputs[:, offset:], offset), positions(inputs)[:, offset:])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_each_position_stands_alone_in_every_format(dtype: torch.dtype) -> None:
    positions = SinusoidalPositions(16).to(dtype)
    found = positions(torch.zeros(1, 400, 16, dtype=dtype))[0]
    assert found.dtype is dtype
    assert not torch.equal(found[256], found[257])
    assert len(found.unique(dim=0)) == 400
    torch.testing.assert_close(found, torch.tensor(table(400, 16)).to(dtype), rtol=0, atol=torch.finfo(dtype).eps)
