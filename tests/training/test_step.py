"""The loss of a step: which tokens are predicted from which, what a loss receives, and what is
added to it.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

import dialog
from dialog.data.batching import Batch, collate
from dialog.data.store.static_shapes import with_static_shape
from dialog.data.tokenizers.tokenizer import BOS, EOS, PAD
from dialog.errors import UserError
from dialog.models.seq2seq import Seq2Seq
from dialog.training.losses import LOSSES, CrossEntropy, LossSums, coverage_loss
from dialog.training.objectives import Denoising, Reverse
from dialog.training.step import TrainingStep, tokens_before

Network = Callable[..., Seq2Seq]
Draw = Callable[..., Batch]
Gradients = Callable[..., tuple[Tensor, dict[str, Tensor]]]

# ------------------------------------------------------------------ targets


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_tokens_and_end_are_predicted_from_those_before(
    network: Network, batch: Draw, loss_and_gradients: Gradients, smoothing: float
) -> None:
    """Against a loop over rows and tokens without padding: catches padding in the loss, shifts and
    a lost end token.
    """
    model, rows = network(tie_embeddings=False), batch(5, 6)
    loss = {"name": "cross_entropy", "label_smoothing": smoothing}
    module = dialog.DialogModule(model, padding=PAD, loss=loss)
    terms = []
    for source, target in zip(rows.source, rows.target, strict=True):
        tokens, context = target[target != PAD], source[source != PAD][None]
        for place in range(1, len(tokens)):
            logits = model(context, context != PAD, tokens[None, :place])[0, -1]  # [V]
            log_p = logits - logits.exp().sum().log()
            terms.append(-(1 - smoothing) * log_p[tokens[place]] - smoothing * log_p.mean())
    expected = sum(terms[1:], terms[0]) / len(terms)
    assert len(terms) == rows.target_tokens
    computed, gradients = loss_and_gradients(module, rows)
    torch.testing.assert_close(computed, expected.detach(), rtol=0, atol=1e-12)
    model.zero_grad()
    (3 * expected).backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(gradients[name], parameter.grad, rtol=0, atol=1e-12)


def test_tokens_before_each_token() -> None:
    assert tokens_before(torch.tensor([[7, 8, EOS], [9, EOS, PAD]]), PAD).tolist() == [
        [[PAD, PAD, PAD], [7, PAD, PAD], [7, 8, PAD]],
        [[PAD, PAD, PAD], [9, PAD, PAD], [9, EOS, PAD]],
    ]


# ------------------------------------------------------------------ losses of users


def scaled_loss(logits: Tensor, targets: Tensor, *, scale: float = 2.0) -> LossSums:
    nll = CrossEntropy()(logits, targets).nll
    return LossSums(scale * nll, nll)


def distance_loss(logits: Tensor, targets: Tensor, second_pass: Tensor) -> LossSums:
    return LossSums((logits - second_pass).abs().sum(), CrossEntropy()(logits, targets).nll)


class CountingLoss(nn.Module):
    """Adds the number of tokens before each."""

    needs = frozenset({"previous"})

    def __init__(self, *, padding: int) -> None:
        super().__init__()
        self.padding = padding

    def forward(self, logits: Tensor, targets: Tensor, previous: Tensor) -> LossSums:
        nll = CrossEntropy()(logits, targets).nll
        return LossSums(nll + (previous != self.padding).sum(), nll)


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A user's module ``lab``."""
    lab = ModuleType("lab")
    lab.scaled, lab.distance, lab.Counting = scaled_loss, distance_loss, CountingLoss
    monkeypatch.setitem(sys.modules, "lab", lab)
    monkeypatch.setattr(distance_loss, "needs", frozenset({"second_pass"}), raising=False)
    return lab


def test_a_loss_gets_the_inputs_that_it_needs(
    network: Network, batch: Draw, loss_and_gradients: Gradients, lab: ModuleType
) -> None:
    model, rows = network(dropout=0.3), batch()

    def loss(component: dict[str, object]) -> Tensor:
        return loss_and_gradients(
            dialog.DialogModule(model, padding=PAD, loss=dialog.trusted(component)), rows
        )[0]

    plain = loss({"name": "cross_entropy"})
    torch.testing.assert_close(loss({"name": "lab.scaled", "scale": 3.0}), 3 * plain)
    lengths = (rows.target[:, 1:] != PAD).sum(1)
    torch.testing.assert_close(
        loss({"name": "lab.Counting"}),
        plain + (lengths * (lengths - 1) / 2).sum() / rows.target_tokens,
    )
    assert loss({"name": "lab.distance"}) > 0.1, "two passes with the same dropout"


@pytest.mark.parametrize(
    ("component", "needs", "message"),
    [
        ({"name": "lab.scaled", "scales": 3.0}, set(), r"^lab\.scaled: unknown argument 'scales'"),
        (
            {"name": "lab.distance"},
            set(),
            r"^lab\.distance: missing required argument: second_pass",
        ),
        (
            {"name": "lab.distance"},
            {"third_pass"},
            r"^lab\.distance: needs: unknown \['third_pass'\]",
        ),
    ],
)
def test_an_unsuitable_loss_is_an_error(
    network: Network,
    lab: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    component: dict[str, object],
    needs: set[str],
    message: str,
) -> None:
    monkeypatch.setattr(distance_loss, "needs", frozenset(needs))
    with pytest.raises(UserError, match=message):
        dialog.DialogModule(network(), padding=PAD, loss=dialog.trusted(component))


# ------------------------------------------------------------------ auxiliary objectives and coverage


def logged(module: dialog.DialogModule) -> dict[str, Tensor]:
    """The means of a step of one micro-batch."""
    return module.step_sums.finish(1)[0]


def mean_loss(
    model: Seq2Seq, source: Tensor, target: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """torch's smoothed loss, and -log p, per token of a task."""
    logits = model(source, source != PAD, target[:, :-1]).flatten(0, 1)
    options = {"ignore_index": PAD, "reduction": "sum"}
    gold = target[:, 1:].flatten()
    sums = [
        nn.functional.cross_entropy(logits, gold, label_smoothing=each, **options)
        for each in (smoothing, 0.0)
    ]
    return sums[0] / (gold != PAD).sum(), sums[1] / (gold != PAD).sum()


@pytest.mark.parametrize("decoder", ["lstm", "transformer"])
def test_objectives_are_weighted_and_logged_separately(
    network: Network, batch: Draw, decoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    smoothing, model, rows = 0.1, network(decoder), batch()
    module = dialog.DialogModule(
        model,
        padding=PAD,
        loss={"name": "cross_entropy", "label_smoothing": smoothing},
        objectives=[
            {"name": "denoising", "weight": 0.5, "schedule": {"name": "linear", "steps": 4}},
            {"name": "reverse", "weight": 2},
            {"name": "denoising", "deletion": 0.0, "masking": 0.0, "distance": 0},
        ],
    )
    monkeypatch.setattr(dialog.DialogModule, "global_step", 1)
    torch.manual_seed(2)
    loss = module.training_step(rows, 0)
    torch.manual_seed(2)
    tasks = [
        (rows.source, rows.target),
        Denoising()(rows),
        Reverse()(rows),
        Denoising(deletion=0, masking=0, distance=0)(rows),
    ]
    means = [mean_loss(model, *task, smoothing) for task in tasks]
    ratios = [int((target[:, 1:] != PAD).sum()) / rows.target_tokens for _, target in tasks]
    weights = (1.0, 0.5 * 0.75, 2.0, 1.0)
    terms = [
        weight * ratio * mean[0] for weight, ratio, mean in zip(weights, ratios, means, strict=True)
    ]
    expected = sum(terms[1:], terms[0])
    values = logged(module)
    names = ["loss", "denoising", "reverse", "denoising_2"]
    assert set(values) == {*names, "objective"}
    for name, (_, nll) in zip(names, means, strict=True):
        torch.testing.assert_close(values[name], nll.detach(), rtol=0, atol=1e-12)
    torch.testing.assert_close(values["objective"], loss.detach(), rtol=0, atol=0)
    torch.testing.assert_close(loss, expected, rtol=0, atol=1e-12)
    leaves = list(model.parameters())
    gradients = [
        torch.autograd.grad(value, leaves, materialize_grads=True) for value in (loss, expected)
    ]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-12)
    assert module.target_tokens == rows.target_tokens


def test_an_objective_without_targets_has_no_loss(network: Network) -> None:
    rows = collate([([EOS], [BOS, 9, EOS])] * 2, range(2))
    module = dialog.DialogModule(network(), padding=PAD, objectives=[{"name": "reverse"}])
    module.training_step(rows, 0).backward()
    values = logged(module)
    assert values["reverse"] == 0
    assert values["objective"] == values["loss"]
    assert all(
        each.grad is None or each.grad.isfinite().all() for each in module.model.parameters()
    )


@pytest.mark.parametrize("loss", ["cross_entropy", "r_drop"])
@pytest.mark.parametrize("decoder", ["lstm", "transformer"])
def test_coverage_is_weighted_and_logged_separately(
    network: Network, batch: Draw, decoder: str, loss: str
) -> None:
    model, rows = network(decoder, head={"name": "pointer_generator", "coverage": 0.7}), batch()
    module = dialog.DialogModule(model, padding=PAD, loss={"name": loss})
    objective = module.training_step(rows, 0)
    values = logged(module)
    memory, state = model.start(rows.source, rows.source != PAD)
    decoded, _ = model.decode(rows.target[:, :-1], memory, state)
    real = rows.target[:, 1:] != PAD
    coverage = coverage_loss(decoded.weights, real) / rows.target_tokens
    assert coverage > 0.01
    torch.testing.assert_close(values["coverage"], coverage.detach(), rtol=0, atol=1e-12)
    torch.testing.assert_close(
        objective, mean_loss(model, rows.source, rows.target, 0.0)[0] + 0.7 * coverage
    )
    gate = model.head.measures(decoded[real.nonzero(as_tuple=True)])["generation_probability"]
    torch.testing.assert_close(
        values["generation_probability"], gate.mean().detach(), rtol=0, atol=1e-12
    )


# ------------------------------------------------------------------ static shapes


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("head", ["vocabulary", "pointer", "pointer_generator"])
def test_a_masked_step_of_a_padded_batch_is_the_step(
    network: Network, batch: Draw, loss: str, head: str
) -> None:
    component = {"name": head} if head == "vocabulary" else {"name": head, "coverage": 0.3}
    model, rows = network("lstm", head=component), batch(5, 6)
    objectives = [{"name": "denoising", "deletion": 0.0, "masking": 0.0, "distance": 0}]
    step = dialog.DialogModule(model, padding=PAD, loss={"name": loss}, objectives=objectives).step

    def computed(step: TrainingStep, rows: Batch) -> list[Tensor]:
        objective, terms = step(model, rows, 0)
        gradients = torch.autograd.grad(objective, list(model.parameters()), materialize_grads=True)
        logged = [value / count for _, (value, count) in sorted(terms.items())]
        return [objective.detach(), *logged, *gradients]

    padded = with_static_shape(rows)
    assert (padded.source.shape, padded.target.shape) == ((5, 16), (5, 9))
    torch.testing.assert_close(
        computed(replace(step, masked=True), padded), computed(step, rows), rtol=0, atol=1e-11
    )
