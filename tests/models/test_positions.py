"""Positions of each kind against their formula, in float64."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from dialog.config.components import build
from dialog.errors import UserError
from dialog.models.positions import (
    POSITIONS,
    LearnedPositions,
    PositionEncoding,
    RotaryPositions,
    SinusoidalPositions,
)

SIZE, HEADS, LENGTH = 12, 3, 10


@pytest.fixture(params=POSITIONS)
def positions(request: pytest.FixtureRequest) -> PositionEncoding:
    return build(POSITIONS, {"name": request.param}, size=SIZE, heads=HEADS).double()


# ------------------------------------------------------------------ every kind


def test_offset_continues_a_sequence(
    positions: PositionEncoding, draw: Callable[..., Tensor]
) -> None:
    inputs, heads = draw(2, LENGTH, SIZE), draw(2, HEADS, LENGTH, 4)
    for offset in range(LENGTH):
        assert torch.equal(positions(inputs[:, offset:], offset), positions(inputs)[:, offset:])
        assert torch.equal(
            positions.turn_at(heads[:, :, offset:], offset)(heads[:, :, offset:]),
            positions.turn_at(heads)(heads)[:, :, offset:],
        )


def test_positions_differ(positions: PositionEncoding, draw: Callable[..., Tensor]) -> None:
    inputs, heads = (
        draw(1, 1, SIZE).expand(1, LENGTH, SIZE),
        draw(1, HEADS, 1, 4).expand(1, HEADS, LENGTH, 4),
    )
    turned = positions.turn_at(heads)(heads).transpose(1, 2).flatten(2)  # [1, T, D]
    both = torch.cat([positions(inputs), turned], -1)[0]
    assert len(both.unique(dim=0)) == LENGTH


def test_only_rotary_positions_turn(
    positions: PositionEncoding, draw: Callable[..., Tensor]
) -> None:
    inputs, heads = draw(2, LENGTH, SIZE), draw(2, HEADS, LENGTH, 4)
    rotary = isinstance(positions, RotaryPositions)
    assert (positions(inputs, 3) is inputs) is rotary
    assert (positions.turn_at(heads, 3)(heads) is heads) is not rotary


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_positions_keep_the_format(positions: PositionEncoding, dtype: torch.dtype) -> None:
    positions = positions.to(dtype)
    assert positions(torch.ones(1, 3, SIZE, dtype=dtype)).dtype is dtype
    heads = torch.ones(1, HEADS, 3, 4, dtype=dtype)
    assert positions.turn_at(heads)(heads).dtype is dtype


# ------------------------------------------------------------------ sinusoidal


def table(length: int, size: int) -> list[list[float]]:
    """P[t, 2i] = sin(t / 10000^(2i / D)), p[t, 2i + 1] = cos(t / 10000^(2i / D)), number by
    number.
    """
    return [
        [(math.cos if d % 2 else math.sin)(t / 10000 ** ((d - d % 2) / size)) for d in range(size)]
        for t in range(length)
    ]


@pytest.mark.parametrize("size", [1, 2, 7, 8, 64, 65])
def test_sinusoidal_positions_follow_their_formula(size: int) -> None:
    output = SinusoidalPositions(size)(torch.zeros(2, 300, size, dtype=torch.float64))
    expected = torch.tensor(table(300, size), dtype=torch.float64)
    torch.testing.assert_close(output, expected.expand(2, -1, -1), rtol=0, atol=1e-12)


def test_sinusoidal_positions_are_added(draw: Callable[..., Tensor]) -> None:
    positions, inputs = SinusoidalPositions(6), draw(2, 5, 6)
    torch.testing.assert_close(
        positions(inputs) - inputs, positions(torch.zeros_like(inputs)), rtol=0, atol=1e-15
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_sinusoidal_positions_differ_in_every_format(dtype: torch.dtype) -> None:
    positions = SinusoidalPositions(16).to(dtype)
    output = positions(torch.zeros(1, 400, 16, dtype=dtype))[0]
    assert output.dtype is dtype
    assert not torch.equal(output[256], output[257])
    assert len(output.unique(dim=0)) == 400
    torch.testing.assert_close(
        output, torch.tensor(table(400, 16)).to(dtype), rtol=0, atol=torch.finfo(dtype).eps
    )


# ------------------------------------------------------------------ learned


def test_learned_positions_are_rows_of_a_table(draw: Callable[..., Tensor]) -> None:
    positions, inputs = LearnedPositions(6, length=9).double(), draw(2, 4, 6)
    weight = positions.table.weight
    output = positions(inputs, 3)
    for row in range(2):
        for step in range(4):
            assert torch.equal(output[row, step], inputs[row, step] + weight[3 + step])
    output.sum().backward()
    assert weight.grad.tolist() == [[0.0] * 6] * 3 + [[2.0] * 6] * 4 + [[0.0] * 6] * 2


def test_learned_positions_start_with_their_deviation() -> None:
    torch.manual_seed(0)
    assert LearnedPositions(64, length=4000).table.weight.std().item() == pytest.approx(
        1 / 8, rel=0.02
    )


def test_a_sequence_longer_than_the_table_is_an_error(draw: Callable[..., Tensor]) -> None:
    positions = LearnedPositions(6, length=9).double()
    positions(draw(1, 9, 6))
    positions(draw(1, 1, 6), 8)
    for length, offset in ((10, 0), (1, 9), (4, 6)):
        with pytest.raises(
            UserError, match=r"^learned positions: length is 9, but a sequence has 10 tokens; .*$"
        ):
            positions(draw(1, length, 6), offset)


def test_an_empty_table_is_an_error() -> None:
    with pytest.raises(UserError, match="learned: length must be at least 1, not 0"):
        build(POSITIONS, {"name": "learned", "length": 0}, size=6, heads=2)


# ------------------------------------------------------------------ rotary


def turned(vector: list[float], place: int) -> list[float]:
    """The block-diagonal rotation of Su et al. 2021, (15), number by number."""
    width, pairs = len(vector), []
    for i in range(width // 2):
        angle = place / 10000 ** (2 * i / width)
        one, two = vector[2 * i], vector[2 * i + 1]
        pairs += [
            math.cos(angle) * one - math.sin(angle) * two,
            math.sin(angle) * one + math.cos(angle) * two,
        ]
    return pairs


@pytest.mark.parametrize("width", [2, 4, 10])
@pytest.mark.parametrize("offset", [0, 5, 300])
def test_rotary_positions_follow_their_formula(
    width: int, offset: int, draw: Callable[..., Tensor]
) -> None:
    heads = draw(2, 3, 6, width)
    output = RotaryPositions(3 * width, 3).turn_at(heads, offset)(heads)
    expected = [
        [
            [turned(heads[row, head, step].tolist(), offset + step) for step in range(6)]
            for head in range(3)
        ]
        for row in range(2)
    ]
    torch.testing.assert_close(
        output, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12
    )


def test_rotary_scores_depend_on_the_distance_only(draw: Callable[..., Tensor]) -> None:
    rotary, query, key = RotaryPositions(8, 1), draw(1, 1, 1, 8), draw(1, 1, 1, 8)

    def score(place: int, other: int) -> float:
        return (rotary.turn_at(query, place)(query) * rotary.turn_at(key, other)(key)).sum().item()

    for distance in (0, 1, 7):
        scores = [score(place + distance, place) for place in (0, 1, 20, 1000)]
        assert scores == pytest.approx([scores[0]] * 4, abs=1e-11)
    assert abs(score(1, 0) - score(0, 1)) > 1e-3
    assert abs(score(7, 0) - score(0, 0)) > 1e-3


def test_rotary_positions_keep_lengths(draw: Callable[..., Tensor]) -> None:
    heads = draw(2, 3, 50, 6)
    torch.testing.assert_close(
        RotaryPositions(18, 3).turn_at(heads)(heads).norm(dim=-1),
        heads.norm(dim=-1),
        rtol=0,
        atol=1e-12,
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_rotary_positions_differ_in_every_format(
    dtype: torch.dtype, draw: Callable[..., Tensor]
) -> None:
    rotary, heads = RotaryPositions(16, 1), draw(1, 1, 1, 16).expand(1, 1, 400, 16).to(dtype)
    output = rotary.turn_at(heads)(heads)[0, 0]
    assert len(output.unique(dim=0)) == 400
    exact = rotary.turn_at(heads.double())(heads.double())[0, 0]
    torch.testing.assert_close(
        output.double(), exact, rtol=torch.finfo(dtype).eps, atol=1e-6
    )  # rounded once, at the end


def test_gradients_of_rotary_positions_are_correct(draw: Callable[..., Tensor]) -> None:
    assert torch.autograd.gradcheck(
        lambda heads: RotaryPositions(8, 2).turn_at(heads, 3)(heads),
        draw(1, 2, 3, 4).requires_grad_(),
    )


@pytest.mark.parametrize(
    ("size", "heads", "line"),
    [
        (6, 2, "rotary: the width of a head, 6 / 2, must be even for rotary positions"),
        (8, 3, "rotary: size 8 is not a multiple of 3 heads"),
        (8, 0, "rotary: size 8 is not a multiple of 0 heads"),
    ],
)
def test_rotary_positions_need_an_even_width(size: int, heads: int, line: str) -> None:
    with pytest.raises(UserError, match=line):
        build(POSITIONS, {"name": "rotary"}, size=size, heads=heads)
