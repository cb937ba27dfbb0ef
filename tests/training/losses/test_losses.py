"""Losses against torch's, and against loops over single numbers written from the formulas, in float64."""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dialog.config.components import build
from dialog.data.tokenizers.tokenizer import EOS, PAD
from dialog.errors import UserError
from dialog.training.losses import LOSSES, CrossEntropy, Focal, LossSums, RDrop, Unlikelihood, asks, build_loss
from dialog.training.losses.coverage import coverage_loss
from dialog.training.losses.projection import tokens_before

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


# ------------------------------------------------------------------ the others, from their formulas

ROWS = [[7, 8, 7, 7, EOS], [9, EOS, PAD, PAD, PAD], [8, 8, 8, EOS, PAD]]
Row = list[Tensor]


@pytest.fixture
def scored() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Logits [N, V] of two passes, targets [N] and the tokens before [N, T] of the responses above."""
    generator = torch.Generator().manual_seed(3)
    targets = torch.tensor(ROWS)
    real = targets != PAD
    count = int(real.sum())
    logits, again = (2 * torch.randn(count, 12, generator=generator, dtype=torch.float64) for _ in range(2))
    return logits.requires_grad_(), again.requires_grad_(), targets[real], tokens_before(targets, PAD)[real]


def probabilities(logits: Tensor) -> list[Row]:
    """exp(z_v) / sum_w exp(z_w), number by number."""
    found = []
    for row in logits:
        powers = [each.exp() for each in row]
        whole = sum(powers[1:], powers[0])
        found.append([power / whole for power in powers])
    return found


def added(terms: list[Tensor]) -> Tensor:
    return sum(terms[1:], terms[0])


def agree(found: Tensor, expected: Tensor, *leaves: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    slopes = [torch.autograd.grad(each, leaves, retain_graph=True) for each in (found, expected)]
    assert all(slope.any() for slope in slopes[1])
    torch.testing.assert_close(*slopes, rtol=0, atol=1e-12)


def unlikelihood(p: list[Row], alpha: float) -> Tensor:
    """By the responses themselves: no tensor of tokens before is used."""
    terms, at = [], iter(p)
    for row in ROWS:
        for place, gold in enumerate(token for token in row if token != PAD):
            here = next(at)
            terms.append(-here[gold].log())
            terms += [-alpha * (1 - here[token]).log() for token in sorted(set(row[:place]) - {gold})]
    return added(terms)


def test_unlikelihood_is_its_formula(scored: tuple[Tensor, ...]) -> None:
    logits, _, targets, previous = scored
    found = Unlikelihood(alpha=0.7)(logits, targets, previous)
    agree(found.objective, unlikelihood(probabilities(logits), 0.7), logits)
    assert torch.equal(found.nll, CrossEntropy()(logits, targets).nll)


def test_unlikelihood_of_a_token_that_is_certain_is_finite() -> None:
    logits = torch.tensor([[0.0] * 7 + [90.0, 0.0]], requires_grad=True)
    found = Unlikelihood()(logits, torch.tensor([8]), torch.tensor([[7, PAD]]))
    found.objective.backward()
    assert found.objective.item() == pytest.approx(90 + 6 * math.log(10), rel=1e-5)
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_unlikelihood_names_the_padding_that_it_is_given() -> None:
    loss = build(LOSSES, {"name": "unlikelihood"}, padding=5)
    logits = torch.randn(1, 9)
    found = loss(logits, torch.tensor([7]), torch.tensor([[5, 5]]))
    assert torch.equal(found.objective, found.nll)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_focal_is_its_formula(gamma: float, scored: tuple[Tensor, ...]) -> None:
    logits, _, targets, _ = scored
    p = probabilities(logits)
    gold = [row[target] for row, target in zip(p, targets.tolist(), strict=True)]
    found = Focal(gamma=gamma)(logits, targets)
    agree(found.objective, added([-((1 - each) ** gamma) * each.log() for each in gold]), logits)
    assert found.nll.item() == pytest.approx(-sum(math.log(each.item()) for each in gold), rel=1e-12)


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_focal_of_what_is_certain_has_a_gradient(gamma: float) -> None:
    logits = torch.tensor([[200.0, 0.0]], requires_grad=True)
    Focal(gamma=gamma)(logits, torch.tensor([0])).objective.backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize(
    ("inner", "formula"),
    [
        ({"name": "cross_entropy"}, lambda p: unlikelihood(p, 0.0)),
        ({"name": "unlikelihood", "alpha": 0.3}, lambda p: unlikelihood(p, 0.3)),
    ],
)
def test_r_drop_is_its_formula(
    inner: dict[str, object], formula: Callable[[list[Row]], Tensor], scored: tuple[Tensor, ...]
) -> None:
    logits, again, targets, previous = scored
    p, q = probabilities(logits), probabilities(again)

    def divergence(one: list[Row], other: list[Row]) -> Tensor:
        pairs = [each for rows in zip(one, other, strict=True) for each in zip(*rows, strict=True)]
        return added([a * (a / b).log() for a, b in pairs])

    expected = (formula(p) + formula(q)) / 2 + 0.9 * (divergence(p, q) + divergence(q, p)) / 2
    found = RDrop(loss=inner, weight=0.9)(logits, targets, previous, again)
    agree(found.objective, expected, logits, again)
    nll = [CrossEntropy()(each, targets).nll for each in (logits, again)]
    torch.testing.assert_close(found.nll, sum(nll) / 2, rtol=0, atol=1e-12)


def test_two_equal_passes_are_one(scored: tuple[Tensor, ...]) -> None:
    logits, _, targets, previous = scored
    found = RDrop(weight=5.0)(logits, targets, previous, logits)
    torch.testing.assert_close(found.objective, CrossEntropy()(logits, targets).objective, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_is_computed_in_float32_and_is_a_sum(name: str, scored: tuple[Tensor, ...]) -> None:
    loss = build_loss(LOSSES, {"name": name}, padding=PAD)
    logits, again, targets, previous = scored

    def call(dtype: torch.dtype, rows: slice = slice(None), of: tuple[Tensor, Tensor] = (logits, again)) -> LossSums:
        first, second = (each[rows].to(dtype) for each in of)
        offered = {"previous": previous[rows], "again": second}
        return loss(first, targets[rows], **{key: offered[key] for key in offered if asks(loss, key)})

    for dtype in (torch.bfloat16, torch.float16):
        rounded, other_pass = logits.to(dtype), again.to(dtype)
        exact = call(torch.float64, of=(rounded, other_pass))
        for one, other in zip(call(dtype), exact, strict=True):
            assert one.dtype is torch.float32
            torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=0)
    for whole, *parts in zip(
        call(torch.float64), *(call(torch.float64, slice(n, n + 4)) for n in (0, 4, 8)), strict=True
    ):
        torch.testing.assert_close(whole, sum(parts), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("component", "message"),
    [
        ({"name": "unlikelihood", "alpha": -1.0}, "alpha must be at least 0"),
        ({"name": "focal", "gamma": -1.0}, "gamma must be at least 0"),
        ({"name": "r_drop", "weight": -1.0}, "weight must be at least 0"),
        ({"name": "r_drop", "loss": {"name": "r_drop"}}, "unknown loss 'r_drop'"),
        ({"name": "torch.nn.functional.nll_loss"}, None),
    ],
)
def test_what_means_nothing_is_refused(component: dict[str, object], message: str | None) -> None:
    with pytest.raises(UserError, match=message):
        build_loss(LOSSES, component, padding=PAD)


def test_tokens_before() -> None:
    found = tokens_before(torch.tensor([[7, 8, EOS], [9, EOS, PAD]]), PAD)
    assert found.tolist() == [
        [[PAD, PAD, PAD], [7, PAD, PAD], [7, 8, PAD]],
        [[PAD, PAD, PAD], [9, PAD, PAD], [9, EOS, PAD]],
    ]


def test_coverage_is_its_formula() -> None:
    generator = torch.Generator().manual_seed(3)
    weights = torch.rand(2, 4, 3, generator=generator, dtype=torch.float64).softmax(-1).requires_grad_()
    real = torch.tensor([[True, True, True, True], [True, True, False, False]])
    terms = []
    for row in range(2):
        for step in range(4):
            for place in range(3):
                before = added([weights.new_zeros(()), *(weights[row, earlier, place] for earlier in range(step))])
                if real[row, step] and weights[row, step, place] < before:
                    terms.append(weights[row, step, place])
                elif real[row, step]:
                    terms.append(before)
    agree(coverage_loss(weights, real), added(terms), weights)
