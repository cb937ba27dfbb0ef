"""Likelihood at real positions agrees with the softmax of all logits."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from dialog.data.tokenizers.tokenizer import PAD
from dialog.models.heads import HEADS, Decoded
from dialog.models.kernels import likelihood
from dialog.models.kernels.likelihood import real_positions, target_scores
from dialog.models.seq2seq import Seq2Seq

SIZES = {"layers": 1, "heads": 2, "feed_forward_size": 8}


class TableHead(nn.Module):
    """Returns the outputs as logits."""

    def forward(self, decoded: Decoded) -> Tensor:
        return decoded.outputs


def table(logits: Tensor) -> Decoded:
    return Decoded(logits, *(logits[..., :0],) * 3)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("rows", [1, 4, 1000])
def test_scores_agree_with_the_softmax_of_all_logits(
    stir: Callable[[nn.Module], nn.Module], monkeypatch: pytest.MonkeyPatch, head: str, rows: int
) -> None:
    parts = {"encoder": {"name": "transformer", **SIZES}, "decoder": {"name": "transformer", **SIZES}}
    model = Seq2Seq(12, padding=PAD, embedding_size=8, head={"name": head}, **parts).double().eval()
    stir(model)
    source = torch.tensor([[7, 8, 9, 3], [5, 6, PAD, PAD]])
    target = torch.tensor([[1, 7, 8, 9, 2], [1, 6, 2, PAD, PAD]])
    memory, state = model.start(source, source != PAD)
    decoded, _ = model.decode(target[:, :-1], memory, state)
    targets = target[:, 1:]
    real = targets != PAD
    probabilities = model.head(decoded).softmax(-1)
    expected = -probabilities.gather(-1, targets.unsqueeze(-1)).squeeze(-1).log()
    monkeypatch.setitem(likelihood.ROWS, "cpu", rows)
    nll, confidence, correct = target_scores(model.head, decoded, targets, real)
    torch.testing.assert_close(nll, expected.masked_fill(~real, 0.0))
    torch.testing.assert_close(confidence, probabilities.amax(-1).masked_fill(~real, 0.0))
    assert torch.equal(correct, (probabilities.argmax(-1) == targets) & real)


def test_of_equal_logits_the_first_is_the_prediction() -> None:
    nll, confidence, correct = target_scores(
        TableHead(), table(torch.zeros(1, 3, 5)), torch.tensor([[0, 1, 4]]), torch.ones(1, 3, dtype=torch.bool)
    )
    assert correct.tolist() == [[True, False, False]]
    torch.testing.assert_close(nll.exp(), torch.full((1, 3), 5.0))
    torch.testing.assert_close(confidence, torch.full((1, 3), 0.2))


def test_large_logits_and_low_precision_lose_nothing() -> None:
    logits = torch.tensor([[[3e4, 3e4, -3e4]]], dtype=torch.bfloat16)
    nll, confidence, _ = target_scores(TableHead(), table(logits), torch.tensor([[1]]), torch.tensor([[True]]))
    assert nll.dtype is torch.float32
    assert nll.item() == pytest.approx(0.6931472)
    assert confidence.item() == 0.5


def test_logits_that_are_not_numbers_stay_so() -> None:
    logits = torch.tensor([[[0.0, float("nan")]]])
    assert target_scores(TableHead(), table(logits), torch.tensor([[0]]), torch.tensor([[True]])).nll.isnan().all()


def test_a_known_number_of_positions_selects_the_same() -> None:
    real = torch.tensor([[True, False, True], [False, True, False]])
    assert [part.tolist() for part in real_positions(real, 3)] == [[0, 0, 1], [0, 2, 1]]
    assert [part.tolist() for part in real_positions(real)] == [[0, 0, 1], [0, 2, 1]]
