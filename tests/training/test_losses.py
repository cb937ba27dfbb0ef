"""The loss against torch's, in float64."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dialog.components import build
from dialog.errors import UserError
from dialog.training.losses import LOSSES, CrossEntropy

SMOOTHINGS = [0.0, 0.1, 0.5, 0.99]


@pytest.fixture
def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    logits = 3 * torch.randn(9, 7, generator=generator, dtype=torch.float64)
    return logits.requires_grad_(), torch.randint(7, (9,), generator=generator)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_it_is_torchs_with_its_gradient(smoothing: float, batch: tuple[Tensor, Tensor]) -> None:
    logits, targets = batch
    found = CrossEntropy(label_smoothing=smoothing)(logits, targets)
    objective = F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    nll = F.cross_entropy(logits, targets, reduction="sum")
    for one, other in ((found.objective, objective), (found.nll, nll)):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
        slopes = [torch.autograd.grad(each, logits, retain_graph=True)[0] for each in (one, other)]
        torch.testing.assert_close(*slopes, rtol=0, atol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_likelihood_is_never_smoothed(smoothing: float, batch: tuple[Tensor, Tensor]) -> None:
    logits, targets = batch
    found = CrossEntropy(label_smoothing=smoothing)(logits, targets)
    assert torch.equal(found.nll, CrossEntropy()(logits, targets).nll)
    assert torch.equal(found.objective, found.nll) is (smoothing == 0)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_a_batch_is_the_sum_of_its_tokens(smoothing: float, batch: tuple[Tensor, Tensor]) -> None:
    logits, targets = batch
    loss = CrossEntropy(label_smoothing=smoothing)
    whole = loss(logits, targets)
    for cuts in ([1] * 9, [4, 5], [2, 0, 7]):
        parts = [loss(*each) for each in zip(logits.split(cuts), targets.split(cuts), strict=True)]
        for one, *others in zip(whole, *parts, strict=True):
            torch.testing.assert_close(one, sum(others), rtol=0, atol=1e-12)


def test_no_tokens_cost_nothing() -> None:
    logits = torch.zeros(0, 7, requires_grad=True)
    found = CrossEntropy(label_smoothing=0.1)(logits, torch.zeros(0, dtype=torch.long))
    found.objective.backward()
    assert found.objective == found.nll == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    logits = (8 * torch.randn(5000, 40, generator=generator)).to(dtype).requires_grad_()
    targets = torch.randint(40, (5000,), generator=generator)
    loss = CrossEntropy(label_smoothing=0.1)
    found, exact = loss(logits, targets), loss(logits.double(), targets)
    assert exact.objective > torch.finfo(torch.float16).max
    for one, other in zip(found, exact, strict=True):
        assert one.dtype is torch.float32
        torch.testing.assert_close(one.double(), other, rtol=1e-6, atol=0)
    (slope,) = torch.autograd.grad(found.objective, logits)
    assert slope.dtype is dtype
    (exact_slope,) = torch.autograd.grad(exact.objective, logits)
    torch.testing.assert_close(slope, exact_slope, rtol=torch.finfo(dtype).eps, atol=1e-6)


def test_float32_and_better_keep_their_precision(batch: tuple[Tensor, Tensor]) -> None:
    logits, targets = batch
    for dtype in (torch.float32, torch.float64):
        assert {each.dtype for each in CrossEntropy(label_smoothing=0.1)(logits.to(dtype), targets)} == {dtype}


def test_large_scores_stay_finite() -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0]], requires_grad=True)
    found = CrossEntropy(label_smoothing=0.1)(logits, torch.tensor([1]))
    found.objective.backward()
    assert found.nll == 2e4
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, 1.5, float("nan")])
def test_a_smoothing_that_is_no_share_is_refused(smoothing: float) -> None:
    with pytest.raises(UserError, match=r"label_smoothing must be in \[0, 1\)"):
        build(LOSSES, {"name": "cross_entropy", "label_smoothing": smoothing})
