"""Sums in chunks equal the sums at once, with the same gradients and without a tensor of all
logits.
"""

from collections.abc import Callable

import pytest
import torch
from operations import Operation, Operations
from torch import Tensor, nn

import dialog
from dialog.data.batching import Batch
from dialog.data.tokenizers.tokenizer import PAD
from dialog.models import likelihood
from dialog.models.heads import HEADS, Decoded, Head
from dialog.models.seq2seq import Seq2Seq
from dialog.training import losses
from dialog.training.losses import LOSSES, CrossEntropy, in_chunks
from dialog.training.teacher_forcing import predictions

Network = Callable[..., Seq2Seq]
Draw = Callable[..., Batch]
Gradients = Callable[..., tuple[Tensor, dict[str, Tensor]]]


@pytest.fixture
def chunk_size(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """``chunk_size(n)``: chunks of n positions."""

    def change(size: int) -> None:
        monkeypatch.setattr(losses, "CHUNK", size)
        monkeypatch.setitem(likelihood.ROWS, "cpu", size)

    return change


class Recording(Head):
    """A head that records its numbers of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(50, 8))
        self.rows: list[int] = []

    def forward(self, decoded: Decoded) -> Tensor:
        self.rows.append(decoded.outputs.numel() // 8)
        return decoded.outputs @ self.weight.T

    def measures(self, decoded: Decoded) -> dict[str, Tensor]:
        return {}


# ------------------------------------------------------------------ sums


def test_no_tensor_of_all_logits_exists(chunk_size: Callable[[int], None]) -> None:
    """Neither in the forward pass nor until the backward pass."""
    sizes: list[int] = []

    def watch(operation: Operation) -> None:
        if isinstance(operation.result, Tensor):
            sizes.append(operation.result.numel())

    chunk_size(10)
    head, saved = Recording(), []
    rows, targets = torch.randn(100, 8, requires_grad=True), torch.randint(50, (100,))

    def sums(outputs: Tensor, gold: Tensor) -> tuple[Tensor, ...]:
        return CrossEntropy()(head(Decoded(outputs, outputs, outputs, outputs)), gold)

    def pack(tensor: Tensor) -> Tensor:
        saved.append(tensor.numel())
        return tensor

    with Operations(watch), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = in_chunks(sums, (rows, targets), tuple(head.parameters()))[0]
        saved_for_backward = saved.copy()
        loss.backward()
    assert max(sizes) == max(100 * 8, 50 * 10) < 100 * 50
    assert max(saved_for_backward) < 100 * 50


def test_the_incoming_gradient_is_a_factor(chunk_size: Callable[[int], None]) -> None:
    """A GradScaler and a mean need it. Only the first sum has a gradient."""
    chunk_size(3)
    weight, rows = (
        torch.randn(4, dtype=torch.float64, requires_grad=True),
        torch.randn(10, 4, dtype=torch.float64),
    )

    def sums(chunk: Tensor) -> tuple[Tensor, Tensor]:
        return (chunk @ weight).square().sum(), chunk.sum()

    first, second = in_chunks(sums, (rows,), (weight,))
    assert not second.requires_grad
    (gradient,) = torch.autograd.grad(first * 65536 / 7, weight)
    torch.testing.assert_close(gradient, 2 * (rows @ weight) @ rows * 65536 / 7, rtol=1e-12, atol=0)


# ------------------------------------------------------------------ steps in chunks


@pytest.mark.parametrize("tied", ["all", "none"])
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("loss", LOSSES)
def test_chunks_equal_the_whole(
    network: Network,
    batch: Draw,
    loss_and_gradients: Gradients,
    chunk_size: Callable[[int], None],
    loss: str,
    head: str,
    tied: str,
) -> None:
    model = network(head={"name": head}, tie_embeddings=tied, dropout=0.2)
    module, rows = dialog.DialogModule(model, padding=PAD, loss={"name": loss}), batch(8, 9)
    whole, expected = loss_and_gradients(module, rows)
    chunk_size(5)
    in_parts, gradients = loss_and_gradients(module, rows)
    torch.testing.assert_close(in_parts, whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(gradients, expected, rtol=0, atol=1e-12)
    assert any(gradient.any() for gradient in gradients.values())


def test_only_real_positions_are_projected(
    network: Network, batch: Draw, chunk_size: Callable[[int], None]
) -> None:
    """At most a chunk of them at a time."""
    module = dialog.DialogModule(network(), padding=PAD)
    module.model.head = head = Recording().double()
    rows = batch(8, 9)
    module.training_step(rows, 0)
    assert head.rows == [rows.target_tokens]
    chunk_size(5)
    for step in (module.training_step, module.validation_step):
        head.rows.clear()
        step(rows, 0)
        assert max(head.rows) == 5
        assert sum(head.rows) == rows.target_tokens


def test_frozen_parameters_get_no_gradient(
    network: Network, batch: Draw, loss_and_gradients: Gradients, chunk_size: Callable[[int], None]
) -> None:
    module = dialog.DialogModule(network(tie_embeddings="none"), padding=PAD)
    module.model.head.weight.requires_grad_(False)
    chunk_size(5)
    _, gradients = loss_and_gradients(module, batch())
    assert "head.weight" not in gradients
    assert "decoder.norm.weight" in gradients


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("decoder", ["lstm", "transformer"])
def test_chunks_under_autocast(
    network: Network,
    batch: Draw,
    loss_and_gradients: Gradients,
    chunk_size: Callable[[int], None],
    decoder: str,
    head: str,
) -> None:
    """With a ratio below 1: weights cast for predictions without a gradient get one
    nevertheless.
    """
    forcing = {"name": "constant", "ratio": 0.5}
    module = dialog.DialogModule(
        network(decoder, head={"name": head}).float(), padding=PAD, teacher_forcing=forcing
    )
    rows = batch(8, 9)
    with torch.autocast("cpu", torch.bfloat16):
        whole, expected = loss_and_gradients(module, rows)
        chunk_size(5)
        in_parts, gradients = loss_and_gradients(module, rows)
    assert in_parts.dtype is torch.float32
    assert gradients.keys() == expected.keys()
    torch.testing.assert_close(in_parts, whole, rtol=1e-3, atol=0)
    largest = max(float(gradient.abs().max()) for gradient in expected.values())
    torch.testing.assert_close(gradients, expected, rtol=0.05, atol=0.02 * largest)


def test_predictions_are_computed_in_chunks(
    network: Network, batch: Draw, chunk_size: Callable[[int], None]
) -> None:
    model, rows = network(), batch(8, 9)
    memory, state = model.start(rows.source, rows.source != PAD)
    decoded, _ = model.decode(rows.target[:, :-1], memory, state)
    expected = model.head(decoded).argmax(-1)
    model.head.register_forward_hook(lambda module, inputs, scores: sizes.append(len(scores)))
    sizes: list[int] = []
    chunk_size(5)
    assert torch.equal(predictions(model.head, decoded), expected)
    assert max(sizes) == 5
