"""Losses against torch's, and against loops over single numbers from the formulas, in float64."""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dialog.config.components import build
from dialog.config.trust import trusted
from dialog.data.tokenizers.tokenizer import EOS, PAD
from dialog.errors import UserError
from dialog.training.losses import (
    LOSSES,
    CrossEntropy,
    Focal,
    LossSums,
    RDrop,
    Unlikelihood,
    build_loss,
    coverage_loss,
    needs_of,
)
from dialog.training.step import tokens_before

SMOOTHINGS = [0.0, 0.1, 0.5, 0.99]


@pytest.fixture
def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    logits = 3 * torch.randn(9, 7, generator=generator, dtype=torch.float64)
    return logits.requires_grad_(), torch.randint(7, (9,), generator=generator)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_cross_entropy_and_its_gradient_are_torchs(
    smoothing: float, batch: tuple[Tensor, Tensor]
) -> None:
    logits, targets = batch
    sums = CrossEntropy(label_smoothing=smoothing)(logits, targets)
    objective = F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    nll = F.cross_entropy(logits, targets, reduction="sum")
    for one, other in ((sums.objective, objective), (sums.nll, nll)):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
        gradients = [
            torch.autograd.grad(value, logits, retain_graph=True)[0] for value in (one, other)
        ]
        torch.testing.assert_close(*gradients, rtol=0, atol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_likelihood_is_never_smoothed(smoothing: float, batch: tuple[Tensor, Tensor]) -> None:
    logits, targets = batch
    sums = CrossEntropy(label_smoothing=smoothing)(logits, targets)
    assert torch.equal(sums.nll, CrossEntropy()(logits, targets).nll)
    assert torch.equal(sums.objective, sums.nll) is (smoothing == 0)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_a_batch_is_the_sum_of_its_tokens(smoothing: float, batch: tuple[Tensor, Tensor]) -> None:
    logits, targets = batch
    loss = CrossEntropy(label_smoothing=smoothing)
    whole = loss(logits, targets)
    for sizes in ([1] * 9, [4, 5], [2, 0, 7]):
        parts = [
            loss(*part) for part in zip(logits.split(sizes), targets.split(sizes), strict=True)
        ]
        for one, *others in zip(whole, *parts, strict=True):
            torch.testing.assert_close(one, sum(others), rtol=0, atol=1e-12)


def test_the_loss_of_no_tokens_is_0() -> None:
    logits = torch.zeros(0, 7, requires_grad=True)
    sums = CrossEntropy(label_smoothing=0.1)(logits, torch.zeros(0, dtype=torch.long))
    sums.objective.backward()
    assert sums.objective == sums.nll == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    logits = (8 * torch.randn(5000, 40, generator=generator)).to(dtype).requires_grad_()
    targets = torch.randint(40, (5000,), generator=generator)
    loss = CrossEntropy(label_smoothing=0.1)
    sums, exact = loss(logits, targets), loss(logits.double(), targets)
    assert exact.objective > torch.finfo(torch.float16).max
    for one, other in zip(sums, exact, strict=True):
        assert one.dtype is torch.float32
        torch.testing.assert_close(one.double(), other, rtol=1e-6, atol=0)
    (gradient,) = torch.autograd.grad(sums.objective, logits)
    assert gradient.dtype is dtype
    (exact_gradient,) = torch.autograd.grad(exact.objective, logits)
    torch.testing.assert_close(gradient, exact_gradient, rtol=torch.finfo(dtype).eps, atol=1e-6)


def test_float32_and_better_keep_their_precision(batch: tuple[Tensor, Tensor]) -> None:
    logits, targets = batch
    for dtype in (torch.float32, torch.float64):
        assert {
            value.dtype for value in CrossEntropy(label_smoothing=0.1)(logits.to(dtype), targets)
        } == {dtype}


def test_large_scores_stay_finite() -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0]], requires_grad=True)
    sums = CrossEntropy(label_smoothing=0.1)(logits, torch.tensor([1]))
    sums.objective.backward()
    assert sums.nll == 2e4
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, 1.5, float("nan")])
def test_smoothing_outside_0_to_1_is_an_error(smoothing: float) -> None:
    with pytest.raises(UserError, match=r"label_smoothing must be in \[0, 1\)"):
        build(LOSSES, {"name": "cross_entropy", "label_smoothing": smoothing})


# ------------------------------------------------------------------ formulas

ROWS = [[7, 8, 7, 7, EOS], [9, EOS, PAD, PAD, PAD], [8, 8, 8, EOS, PAD]]
Row = list[Tensor]


@pytest.fixture
def scored() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Logits [N, V] of two passes, targets [N] and the tokens before [N, T] of the responses
    above.
    """
    generator = torch.Generator().manual_seed(3)
    targets = torch.tensor(ROWS)
    real = targets != PAD
    count = int(real.sum())
    logits, second_pass = (
        2 * torch.randn(count, 12, generator=generator, dtype=torch.float64) for _ in range(2)
    )
    return (
        logits.requires_grad_(),
        second_pass.requires_grad_(),
        targets[real],
        tokens_before(targets, PAD)[real],
    )


def probabilities(logits: Tensor) -> list[Row]:
    """exp(z_v) / sum_w exp(z_w), number by number."""
    distributions = []
    for row in logits:
        powers = [score.exp() for score in row]
        normaliser = sum(powers[1:], powers[0])
        distributions.append([power / normaliser for power in powers])
    return distributions


def total(terms: list[Tensor]) -> Tensor:
    return sum(terms[1:], terms[0])


def check_equal(computed: Tensor, expected: Tensor, *leaves: Tensor) -> None:
    torch.testing.assert_close(computed, expected, rtol=0, atol=1e-12)
    gradients = [
        torch.autograd.grad(value, leaves, retain_graph=True) for value in (computed, expected)
    ]
    assert all(gradient.any() for gradient in gradients[1])
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-12)


def unlikelihood(p: list[Row], alpha: float) -> Tensor:
    """From the responses themselves, without a tensor of tokens before."""
    terms, positions = [], iter(p)
    for row in ROWS:
        for place, gold in enumerate(token for token in row if token != PAD):
            distribution = next(positions)
            terms.append(-distribution[gold].log())
            terms += [
                -alpha * (1 - distribution[token]).log()
                for token in sorted(set(row[:place]) - {gold})
            ]
    return total(terms)


def test_unlikelihood_is_its_formula(scored: tuple[Tensor, ...]) -> None:
    logits, _, targets, previous = scored
    sums = Unlikelihood(alpha=0.7)(logits, targets, previous)
    check_equal(sums.objective, unlikelihood(probabilities(logits), 0.7), logits)
    assert torch.equal(sums.nll, CrossEntropy()(logits, targets).nll)


def test_unlikelihood_of_a_certain_token_is_finite() -> None:
    logits = torch.tensor([[0.0] * 7 + [90.0, 0.0]], requires_grad=True)
    sums = Unlikelihood()(logits, torch.tensor([8]), torch.tensor([[7, PAD]]))
    sums.objective.backward()
    assert sums.objective.item() == pytest.approx(90 + 6 * math.log(10), rel=1e-5)
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_unlikelihood_uses_the_given_padding() -> None:
    loss = build(LOSSES, {"name": "unlikelihood"}, padding=5)
    logits = torch.randn(1, 9)
    sums = loss(logits, torch.tensor([7]), torch.tensor([[5, 5]]))
    assert torch.equal(sums.objective, sums.nll)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_focal_is_its_formula(gamma: float, scored: tuple[Tensor, ...]) -> None:
    logits, _, targets, _ = scored
    p = probabilities(logits)
    likelihoods = [row[target] for row, target in zip(p, targets.tolist(), strict=True)]
    sums = Focal(gamma=gamma)(logits, targets)
    check_equal(
        sums.objective,
        total([-((1 - value) ** gamma) * value.log() for value in likelihoods]),
        logits,
    )
    assert sums.nll.item() == pytest.approx(
        -sum(math.log(value.item()) for value in likelihoods), rel=1e-12
    )


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_focal_of_a_certain_token_has_a_gradient(gamma: float) -> None:
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
    logits, second_pass, targets, previous = scored
    p, q = probabilities(logits), probabilities(second_pass)

    def divergence(one: list[Row], other: list[Row]) -> Tensor:
        pairs = [pair for rows in zip(one, other, strict=True) for pair in zip(*rows, strict=True)]
        return total([a * (a / b).log() for a, b in pairs])

    expected = (formula(p) + formula(q)) / 2 + 0.9 * (divergence(p, q) + divergence(q, p)) / 2
    inputs = {"previous": previous} if inner["name"] == "unlikelihood" else {}
    sums = RDrop(loss=inner, weight=0.9)(logits, targets, second_pass=second_pass, **inputs)
    check_equal(sums.objective, expected, logits, second_pass)
    nll = [CrossEntropy()(scores, targets).nll for scores in (logits, second_pass)]
    torch.testing.assert_close(sums.nll, sum(nll) / 2, rtol=0, atol=1e-12)


def test_r_drop_of_two_equal_passes_is_its_inner_loss(scored: tuple[Tensor, ...]) -> None:
    logits, _, targets, _ = scored
    sums = RDrop(weight=5.0)(logits, targets, second_pass=logits)
    torch.testing.assert_close(
        sums.objective, CrossEntropy()(logits, targets).objective, rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_is_a_sum_in_float32_or_better(name: str, scored: tuple[Tensor, ...]) -> None:
    loss = build_loss(LOSSES, {"name": name}, padding=PAD)
    logits, second_pass, targets, previous = scored

    def call(
        dtype: torch.dtype, rows: slice = slice(None), rounded: torch.dtype = torch.float64
    ) -> LossSums:
        first, second = (scores[rows].to(rounded).to(dtype) for scores in (logits, second_pass))
        inputs = {"previous": previous[rows], "second_pass": second}
        needed = needs_of(loss) & inputs.keys()
        return loss(first, targets[rows], **{name: inputs[name] for name in needed})

    for dtype in (torch.bfloat16, torch.float16):
        exact = call(torch.float64, rounded=dtype)
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
def test_invalid_arguments_are_errors(component: dict[str, object], message: str | None) -> None:
    with pytest.raises(UserError, match=message):
        build_loss(LOSSES, trusted(component), padding=PAD)


def test_coverage_is_its_formula() -> None:
    generator = torch.Generator().manual_seed(3)
    weights = (
        torch.rand(2, 4, 3, generator=generator, dtype=torch.float64).softmax(-1).requires_grad_()
    )
    real = torch.tensor([[True, True, True, True], [True, True, False, False]])
    terms = []
    for row in range(2):
        for step in range(4):
            for place in range(3):
                before = total(
                    [
                        weights.new_zeros(()),
                        *(weights[row, earlier, place] for earlier in range(step)),
                    ]
                )
                if real[row, step] and weights[row, step, place] < before:
                    terms.append(weights[row, step, place])
                elif real[row, step]:
                    terms.append(before)
    check_equal(coverage_loss(weights, real), total(terms), weights)
