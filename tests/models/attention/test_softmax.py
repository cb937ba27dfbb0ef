"""The masked softmax in every format."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from dialog.models.attention import masked_softmax

FORMATS = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", FORMATS)
def test_rows_without_real_entries_are_0(dtype: torch.dtype, draw: Callable[..., Tensor]) -> None:
    scores = (40 * draw(4, 5)).to(dtype).requires_grad_()
    mask = torch.tensor([[1, 1, 0, 1, 0], [0] * 5, [1] * 5, [0, 0, 0, 0, 1]]).bool()
    with torch.autograd.set_detect_anomaly(True):  # no NaN in between either
        weights = masked_softmax(scores, mask)
        (weights * torch.arange(5)).sum().backward()
    assert weights.dtype is torch.promote_types(dtype, torch.float32)
    assert weights.isfinite().all()
    assert not weights[1].any()
    assert weights[3, 4] == 1
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
    assert not scores.grad[~mask].any()
    assert not scores.grad[1].any()
    assert scores.grad[2].any()


@pytest.mark.parametrize("shift", [0.0, -6e4])
@pytest.mark.parametrize("dtype", FORMATS)
def test_masked_softmax_is_a_distribution_over_real_entries(
    dtype: torch.dtype, shift: float, draw: Callable[..., Tensor]
) -> None:
    mask = torch.tensor([[1, 1, 1, 0, 0, 0], [0, 1, 0, 1, 0, 1], [1] * 6]).bool()
    scores = (draw(3, 6) + shift * mask).to(dtype)
    weights = masked_softmax(scores, mask)
    assert not weights[~mask].any()
    exact = torch.promote_types(dtype, torch.float32)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, dtype=exact), rtol=0, atol=1e-6)
    for row in range(3):
        torch.testing.assert_close(
            weights[row, mask[row]], scores[row, mask[row]].to(exact).softmax(-1)
        )


def test_no_mask_is_plain_softmax(draw: Callable[..., Tensor]) -> None:
    scores = draw(2, 3, 5)
    assert torch.equal(masked_softmax(scores, None), scores.softmax(-1))
    assert torch.equal(
        masked_softmax(scores, torch.ones(2, 1, 5, dtype=torch.bool)), scores.softmax(-1)
    )
