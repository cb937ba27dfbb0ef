"""Likelihood at real positions agrees with the softmax of all logits."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

from dialog.data.tokenizers.tokenizer import PAD
from dialog.models import likelihood
from dialog.models.heads import HEADS, Decoded, Head
from dialog.models.likelihood import real_positions, target_scores, token_scores
from dialog.models.seq2seq import Seq2Seq

SIZES = {"layers": 1, "heads": 2, "feed_forward_size": 8}


class TableHead(Head):
    """Returns the outputs as logits."""

    def __init__(self, divisible: bool = False) -> None:
        super().__init__()
        self.divisible = divisible

    def forward(self, decoded: Decoded) -> Tensor:
        return decoded.outputs

    def parts(self, decoded: Decoded, width: int) -> Iterator[Tensor]:
        return (part.clone() for part in super().parts(decoded, width))

    def measures(self, decoded: Decoded) -> dict[str, Tensor]:
        return {}


def table(logits: Tensor) -> Decoded:
    return Decoded(logits, *(logits[..., :0],) * 3)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("rows", [1, 4, 1000])
@pytest.mark.parametrize("cells", [1, 18, 1000])
def test_scores_agree_with_the_softmax_of_all_logits(
    stir: Callable[[nn.Module], nn.Module],
    monkeypatch: pytest.MonkeyPatch,
    head: str,
    rows: int,
    cells: int,
) -> None:
    parts = {
        "encoder": {"name": "transformer", **SIZES},
        "decoder": {"name": "transformer", **SIZES},
    }
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
    monkeypatch.setattr(likelihood, "MOST_ROWS", rows)
    monkeypatch.setattr(likelihood, "CELLS", cells)
    nll, confidence, correct = target_scores(model.head, decoded, targets, real)
    torch.testing.assert_close(nll, expected.masked_fill(~real, 0.0))
    torch.testing.assert_close(confidence, probabilities.amax(-1).masked_fill(~real, 0.0))
    assert torch.equal(correct, (probabilities.argmax(-1) == targets) & real)


def test_a_vocabulary_in_parts_has_the_scores_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    head = HEADS["vocabulary"](11, 4, bias=True).double()
    decoded, targets = table(torch.randn(50, 4, dtype=torch.float64)), torch.randint(11, (50,))
    monkeypatch.setattr(likelihood, "CELLS", 3 * 50)
    assert [part.shape for part in head.parts(decoded, 3)] == [(50, 3), (50, 3), (50, 3), (50, 2)]
    torch.testing.assert_close(torch.cat([*head.parts(decoded, 3)], 1), head(decoded))
    whole = TableHead()
    for part, one in zip(
        token_scores(head, decoded, targets),
        token_scores(whole, table(head(decoded)), targets),
        strict=True,
    ):
        torch.testing.assert_close(part, one)


@pytest.mark.parametrize("cells", [3, 6, 15])
@pytest.mark.parametrize("divisible", [False, True])
def test_of_equal_logits_the_first_is_the_prediction(
    monkeypatch: pytest.MonkeyPatch, divisible: bool, cells: int
) -> None:
    monkeypatch.setattr(likelihood, "CELLS", cells)
    nll, confidence, correct = target_scores(
        TableHead(divisible),
        table(torch.zeros(1, 3, 5)),
        torch.tensor([[4, 0, 1]]),
        torch.ones(1, 3, dtype=torch.bool),
    )
    assert correct.tolist() == [[False, True, False]]
    torch.testing.assert_close(nll.exp(), torch.full((1, 3), 5.0))
    torch.testing.assert_close(confidence, torch.full((1, 3), 0.2))


@pytest.mark.parametrize("divisible", [False, True])
def test_large_logits_and_low_precision_lose_nothing(
    monkeypatch: pytest.MonkeyPatch, divisible: bool
) -> None:
    monkeypatch.setattr(likelihood, "CELLS", 1)
    logits = torch.tensor([[[3e4, 3e4, -3e4]]], dtype=torch.bfloat16)
    nll, confidence, _ = target_scores(
        TableHead(divisible), table(logits), torch.tensor([[1]]), torch.tensor([[True]])
    )
    assert nll.dtype is torch.float32
    assert nll.item() == pytest.approx(0.6931472)
    assert confidence.item() == 0.5


@pytest.mark.parametrize("divisible", [False, True])
def test_logits_that_are_not_numbers_stay_so(divisible: bool) -> None:
    logits = torch.tensor([[[0.0, float("nan")]]])
    scores = target_scores(
        TableHead(divisible), table(logits), torch.tensor([[0]]), torch.tensor([[True]])
    )
    assert scores.nll.isnan().all()


def test_a_known_number_of_positions_selects_the_same() -> None:
    real = torch.tensor([[True, False, True], [False, True, False]])
    assert [part.tolist() for part in real_positions(real, 3)] == [[0, 0, 1], [0, 2, 1]]
    assert [part.tolist() for part in real_positions(real)] == [[0, 0, 1], [0, 2, 1]]
