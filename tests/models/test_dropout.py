"""Dropout by one draw for four numbers against what dropout promises."""

import pytest
import torch

from dialog.models.dropout import Dropout, drop

MANY = 400_000


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.75])
def test_so_many_are_dropped_and_the_rest_grows_by_as_much(probability: float) -> None:
    torch.manual_seed(0)
    left = drop(torch.ones(MANY, dtype=torch.float64), probability)
    assert left.unique().tolist() == pytest.approx([0, 1 / (1 - probability)], rel=1e-4)
    deviation = (probability * (1 - probability) / MANY) ** 0.5
    assert abs((left == 0).double().mean() - probability) < 5 * deviation


def test_neighbours_are_dropped_apart() -> None:
    torch.manual_seed(0)
    zero = (drop(torch.ones(MANY), 0.5) == 0).double() - 0.5
    for distance in range(1, 9):
        assert abs((zero[distance:] * zero[:-distance]).mean()) < 5 * 0.25 / MANY**0.5


def test_slopes_are_dropped_where_numbers_are() -> None:
    numbers = torch.randn(7, 5, 3, dtype=torch.float64).transpose(0, 2).requires_grad_()
    left = drop(numbers, 0.4)
    slope = torch.randn(3, 5, 7, dtype=torch.float64)
    (found,) = torch.autograd.grad(left, numbers, slope)
    torch.testing.assert_close(found, slope * (left / numbers), rtol=0, atol=1e-12)
    assert 0 < (found == 0).sum() < found.numel()


def test_it_draws_from_torchs_generator() -> None:
    dropout, ones = Dropout(0.5), torch.ones(1001)
    torch.manual_seed(1)
    first = dropout(ones)
    state = torch.get_rng_state()
    second = dropout(ones)
    assert not torch.equal(first, second)
    torch.set_rng_state(state)
    assert torch.equal(dropout(ones), second)
    torch.manual_seed(1)
    assert torch.equal(dropout(ones), first)


def test_it_is_for_training_and_for_what_may_be_dropped() -> None:
    ones = torch.ones(100)
    assert torch.equal(Dropout(0.5).eval()(ones), ones)
    assert torch.equal(drop(ones, 0.0), ones)
    assert not drop(ones, 1.0).any()
    assert drop(ones[:0], 0.5).shape == (0,)


def test_it_keeps_the_precision() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        left = drop(torch.ones(50, dtype=dtype, requires_grad=True), 0.5)
        assert left.dtype is dtype
        assert set(left.tolist()) == {0.0, 2.0}
