"""In chunks or whole: the same loss, the same gradients, and never more logits than a chunk's."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dialog
from dialog.data.batching import Batch
from dialog.data.tokenizers.tokenizer import PAD
from dialog.models.heads import HEADS, Decoded
from dialog.models.seq2seq import Seq2Seq
from dialog.training.losses import LOSSES, CrossEntropy, LossSums, chunks, projection
from dialog.training.losses.chunks import in_chunks

Network = Callable[..., Seq2Seq]
Draw = Callable[..., Batch]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """``small(n)``: chunks of n positions."""
    return lambda size: monkeypatch.setattr(chunks, "CHUNK", size)


def objective(made: dialog.DialogModule, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of a step and its gradients."""
    torch.manual_seed(9)
    loss = step(made, batch)
    made.model.zero_grad()
    (3 * loss).backward()
    return loss.detach(), {name: each.grad for name, each in made.model.named_parameters() if each.grad is not None}


def step(made: dialog.DialogModule, batch: Batch) -> Tensor:
    made.log = lambda *_, **__: None
    return made.training_step(batch, 0)


@pytest.mark.parametrize("tied", ["all", "none"])
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("loss", LOSSES)
def test_chunks_are_the_whole(
    network: Network, batch: Draw, small: Callable[[int], None], loss: str, head: str, tied: str
) -> None:
    made = dialog.DialogModule(
        network(head={"name": head}, tie_embeddings=tied, dropout=0.2), padding=PAD, loss={"name": loss}
    )
    rows = batch(8, 9)
    whole, expected = objective(made, rows)
    small(5)
    found, gradients = objective(made, rows)
    torch.testing.assert_close(found, whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(gradients, expected, rtol=0, atol=1e-12)
    assert any(each.any() for each in gradients.values())


class Spy(nn.Module):
    """A head that notes how many rows it is shown."""

    points, coverage = False, 0.0

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(50, 8))
        self.rows: list[int] = []

    def forward(self, decoded: Decoded) -> Tensor:
        self.rows.append(decoded.outputs.numel() // 8)
        return decoded.outputs @ self.weight.T

    def measures(self, decoded: Decoded) -> dict[str, Tensor]:
        return {}


def test_only_real_positions_are_projected_and_no_more_than_a_chunk_at_a_time(
    network: Network, batch: Draw, small: Callable[[int], None]
) -> None:
    made = dialog.DialogModule(network(), padding=PAD)
    made.model.head = spy = Spy().double()
    rows = batch(8, 9)
    step(made, rows)
    assert spy.rows == [rows.target_tokens]
    small(5)
    for call in (step, lambda made, rows: made.validation_step(rows, 0)):
        spy.rows.clear()
        call(made, rows)
        assert max(spy.rows) == 5
        assert sum(spy.rows) == rows.target_tokens


def test_what_lies_between_is_let_go(small: Callable[[int], None]) -> None:
    """Neither forward nor until backward does a tensor of [rows, vocabulary] stand in memory."""
    alive: list[int] = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401 - torch gives any
            found = call(*args, **(kwargs or {}))
            alive.extend(each.numel() for each in [found] if isinstance(each, Tensor))
            return found

    small(10)
    head, kept = Spy(), []
    rows, targets = torch.randn(100, 8, requires_grad=True), torch.randint(50, (100,))

    def sums(outputs: Tensor, gold: Tensor) -> tuple[Tensor, ...]:
        return CrossEntropy()(head(Decoded(outputs, outputs, outputs, outputs)), gold)

    def pack(each: Tensor) -> Tensor:
        kept.append(each.numel())
        return each

    with Watch(), torch.autograd.graph.saved_tensors_hooks(pack, lambda each: each):
        loss = in_chunks(sums, (rows, targets), tuple(head.parameters()))[0]
        kept_after = kept.copy()
        loss.backward()
    assert max(alive) == max(100 * 8, 50 * 10) < 100 * 50
    assert max(kept_after) < 100 * 50


def test_the_incoming_gradient_is_multiplied(small: Callable[[int], None]) -> None:
    """As a GradScaler and a mean need it; what is only reported takes no gradient."""
    small(3)
    weight, rows = torch.randn(4, dtype=torch.float64, requires_grad=True), torch.randn(10, 4, dtype=torch.float64)

    def sums(each: Tensor) -> tuple[Tensor, Tensor]:
        return (each @ weight).square().sum(), each.sum()

    first, second = in_chunks(sums, (rows,), (weight,))
    assert not second.requires_grad
    (found,) = torch.autograd.grad(first * 65536 / 7, weight)
    torch.testing.assert_close(found, 2 * (rows @ weight) @ rows * 65536 / 7, rtol=1e-12, atol=0)


def test_what_is_frozen_stays_so(small: Callable[[int], None], network: Network, batch: Draw) -> None:
    made = dialog.DialogModule(network(tie_embeddings="none"), padding=PAD)
    made.model.head.weight.requires_grad_(False)
    small(5)
    gradients = objective(made, batch())[1]
    assert "head.weight" not in gradients
    assert "decoder.norm.weight" in gradients


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("decoder", ["lstm", "transformer"])
def test_chunks_under_autocast(
    network: Network, batch: Draw, small: Callable[[int], None], decoder: str, head: str
) -> None:
    """With a ratio below 1 too: words said without a gradient leave no weights without one."""
    made = dialog.DialogModule(
        network(decoder, head={"name": head}).float(),
        padding=PAD,
        teacher_forcing={"name": "constant", "ratio": 0.5},
    )
    rows = batch(8, 9)
    with torch.autocast("cpu", torch.bfloat16):
        whole, expected = objective(made, rows)
        small(5)
        found, gradients = objective(made, rows)
    assert found.dtype is torch.float32
    assert gradients.keys() == expected.keys()
    torch.testing.assert_close(found, whole, rtol=1e-3, atol=0)
    largest = max(float(each.abs().max()) for each in expected.values())
    torch.testing.assert_close(gradients, expected, rtol=0.05, atol=0.02 * largest)


# ------------------------------------------------------------------ a user's own


def own_loss(logits: Tensor, targets: Tensor, *, scale: float = 2.0) -> LossSums:
    nll = CrossEntropy()(logits, targets).nll
    return LossSums(scale * nll, nll)


class OwnLoss(nn.Module):
    def __init__(self, *, padding: int) -> None:
        super().__init__()
        self.padding = padding

    def forward(self, logits: Tensor, targets: Tensor, previous: Tensor) -> LossSums:
        nll = CrossEntropy()(logits, targets).nll
        return LossSums(nll + (previous != self.padding).sum(), nll)


def test_a_users_own_loss(network: Network, batch: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    from types import ModuleType

    lab = ModuleType("lab")
    lab.function, lab.Module = own_loss, OwnLoss
    monkeypatch.setitem(sys.modules, "lab", lab)
    rows = batch()
    model = network()
    plain = objective(dialog.DialogModule(model, padding=PAD), rows)[0]
    twice = objective(dialog.DialogModule(model, padding=PAD, loss={"name": "lab.function", "scale": 3.0}), rows)[0]
    torch.testing.assert_close(twice, 3 * plain)
    before = objective(dialog.DialogModule(model, padding=PAD, loss={"name": "lab.Module"}), rows)[0]
    lengths = (rows.target[:, 1:] != PAD).sum(1)
    torch.testing.assert_close(before, plain + (lengths * (lengths - 1) / 2).sum() / rows.target_tokens)
    with pytest.raises(dialog.errors.UserError, match="unknown argument 'scales'"):
        dialog.DialogModule(model, padding=PAD, loss={"name": "lab.function", "scales": 3.0})


# ------------------------------------------------------------------ what is a target


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_each_real_token_and_the_end_is_predicted_from_those_before(
    network: Network, batch: Draw, smoothing: float
) -> None:
    """Row by row and token by token, without any padding: the mutants pad in loss, shift, smoothing, no end token."""
    model = network(tie_embeddings=False)
    made = dialog.DialogModule(model, padding=PAD, loss={"name": "cross_entropy", "label_smoothing": smoothing})
    rows = batch(5, 6)
    terms = []
    for source, target in zip(rows.source, rows.target, strict=True):
        said, read = target[target != PAD], source[source != PAD][None]
        for place in range(1, len(said)):
            logits = model(read, read != PAD, said[None, :place])[0, -1]  # [V]
            log_p = logits - logits.exp().sum().log()
            terms.append(-(1 - smoothing) * log_p[said[place]] - smoothing * log_p.mean())
    expected = sum(terms[1:], terms[0]) / len(terms)
    assert len(terms) == rows.target_tokens
    loss, gradients = objective(made, rows)
    torch.testing.assert_close(loss, expected.detach(), rtol=0, atol=1e-12)
    model.zero_grad()
    (3 * expected).backward()
    for name, each in model.named_parameters():
        if each.grad is not None:
            torch.testing.assert_close(gradients[name], each.grad, rtol=0, atol=1e-12)


def test_own_tokens_go_in_chunks_too(network: Network, batch: Draw, small: Callable[[int], None]) -> None:
    model, rows = network(), batch(8, 9)
    memory, state = model.start(rows.source, rows.source != PAD)
    decoded, _ = model.decode(rows.target[:, :-1], memory, state)
    expected = model.head(decoded).argmax(-1)
    model.head.register_forward_hook(lambda module, given, scores: sizes.append(len(scores)))
    sizes: list[int] = []
    small(5)
    assert torch.equal(projection.own_tokens(model.head, decoded), expected)
    assert max(sizes) == 5
