"""What the decoder reads in training: schedules from their formulas, both families against loops by hand."""

import copy
import math
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest
import torch
from torch import Tensor

import dialog
from dialog.config.components import build
from dialog.data.batching import Batch
from dialog.data.tokenizers.tokenizer import PAD
from dialog.errors import UserError
from dialog.models.seq2seq import Seq2Seq
from dialog.training.teacher_forcing import TEACHER_FORCINGS, decode

DECODERS = ["lstm", "lstm_luong", "transformer"]
Network = Callable[..., Seq2Seq]
Draw = Callable[..., Batch]
Calls = list[Tensor]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Callable[[Seq2Seq], Calls]:
    """``watched(model)``: the tokens that the model is told to go on by, call by call."""

    def watch(model: Seq2Seq) -> Calls:
        calls: Calls = []
        own = model.decode

        def noted(tokens: Tensor, *args: Any) -> Any:  # noqa: ANN401 - Seq2Seq's own
            calls.append(tokens)
            return own(tokens, *args)

        monkeypatch.setattr(model, "decode", noted)
        return calls

    return watch


# ------------------------------------------------------------------ schedules


@pytest.mark.parametrize(
    ("component", "formula"),
    [
        ({"name": "constant"}, lambda i: 1.0),
        ({"name": "constant", "ratio": 0.3}, lambda i: 0.3),
        ({"name": "linear", "steps": 40}, lambda i: max(0.0, 1.0 - i / 40)),
        ({"name": "linear", "steps": 40, "start": 0.9, "end": 0.5}, lambda i: max(0.5, 0.9 - (0.9 - 0.5) / 40 * i)),
        ({"name": "linear", "steps": 40, "start": 0.0, "end": 1.0}, lambda i: min(1.0, i / 40)),
        ({"name": "exponential", "base": 0.97}, lambda i: 0.97**i),
        ({"name": "exponential", "base": 0.97, "end": 0.2}, lambda i: max(0.2, 0.97**i)),
        ({"name": "inverse_sigmoid", "scale": 20.0}, lambda i: 20 / (20 + math.exp(i / 20))),
        ({"name": "inverse_sigmoid", "scale": 20.0, "end": 0.2}, lambda i: max(0.2, 20 / (20 + math.exp(i / 20)))),
    ],
)
def test_a_schedule_is_its_formula(component: dict[str, Any], formula: Callable[[int], float]) -> None:
    schedule = build(TEACHER_FORCINGS, component)
    found = [schedule(step) for step in range(200)]
    assert found == pytest.approx([formula(step) for step in range(200)], abs=1e-12)
    assert 0 <= schedule(10**9) <= 1


def test_half_of_the_inverse_sigmoid() -> None:
    schedule = build(TEACHER_FORCINGS, {"name": "inverse_sigmoid", "scale": 500.0})
    assert schedule(round(500 * math.log(500))) == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(
    "component",
    [
        {"name": "constant", "ratio": 1.1},
        {"name": "linear", "steps": 0},
        {"name": "linear", "steps": 5, "start": -0.1},
        {"name": "linear", "steps": 5, "end": 2.0},
        {"name": "exponential", "base": 1.0},
        {"name": "exponential", "base": 0.5, "end": -1.0},
        {"name": "inverse_sigmoid", "scale": 0.5},
        {"name": "inverse_sigmoid", "scale": 5.0, "end": 7.0},
    ],
)
def test_what_is_no_share_is_refused(component: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"must be (in|at least|above)"):
        build(TEACHER_FORCINGS, component)


# ------------------------------------------------------------------ what is read


@pytest.mark.parametrize("decoder", DECODERS)
def test_the_ratio_1_is_the_plain_path(
    network: Network, batch: Draw, watched: Callable[[Seq2Seq], Calls], decoder: str
) -> None:
    model, rows = network(decoder, dropout=0.3), batch()
    made = dialog.DialogModule(model, padding=PAD)
    torch.manual_seed(3)
    real = rows.target[:, 1:] != PAD
    gold = rows.target[:, 1:][real]
    scores = model(rows.source, rows.source != PAD, rows.target[:, :-1])[real]
    expected = made.loss(scores, gold).objective / rows.target_tokens
    calls = watched(model)
    torch.manual_seed(3)
    assert torch.equal(made.training_step(rows, 0), expected)
    assert len(calls) == 1
    assert torch.equal(calls[0], rows.target[:, :-1])
    assert made.forced


def by_hand(model: Seq2Seq, rows: Batch) -> tuple[Tensor, Tensor]:
    """Logits of a network that never reads a gold token, and what it reads: row by row, one token at a time."""
    scores, read = [], []
    for source, target in zip(rows.source, rows.target[:, :-1], strict=True):
        source, gold, own, logits = source[source != PAD][None], target, [int(target[0])], []
        memory, state = model.start(source, source != PAD)
        first = model.start(source, source != PAD)[1]
        for token in gold:
            if not model.decoder.stepwise:  # the word is what it says after the gold tokens
                said, first = model.step(token.view(1, 1), memory, first)
            found, state = model.step(torch.tensor([[own[-1]]]), memory, state)
            own.append(int((found if model.decoder.stepwise else said).argmax()))
            logits.append(found[0, 0])
        scores.append(torch.stack(logits))
        read.append(torch.tensor(own[:-1]))
    return torch.stack(scores), torch.stack(read)


@pytest.mark.parametrize("head", ["vocabulary", "pointer_generator"])
@pytest.mark.parametrize("decoder", DECODERS)
def test_the_ratio_0_reads_its_own_words(
    network: Network, batch: Draw, watched: Callable[[Seq2Seq], Calls], decoder: str, head: str
) -> None:
    model, rows = network(decoder, head={"name": head}).eval(), batch()
    expected, read = by_hand(model, rows)
    calls = watched(model)
    memory, state = model.start(rows.source, rows.source != PAD)
    decoded = decode(model, rows.target[:, :-1], memory, state, ratio=0.0)
    found = model.head(decoded)
    assert torch.equal(torch.cat(calls, 1) if model.decoder.stepwise else calls[-1], read)
    assert not torch.equal(read, rows.target[:, :-1])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    leaves = list(model.parameters())
    mixture = torch.randn(found.shape, dtype=found.dtype)
    slopes = [torch.autograd.grad((mixture * each).sum(), leaves, allow_unused=True) for each in (found, expected)]
    torch.testing.assert_close(*([each for each in slope if each is not None] for slope in slopes), rtol=0, atol=1e-10)


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("decoder", DECODERS)
def test_coins_fall_as_often_as_the_ratio_says(
    network: Network, watched: Callable[[Seq2Seq], Calls], decoder: str, sampled: bool
) -> None:
    """Gold tokens are of a kind that this model never says, so each one that is read shows."""
    model = network(decoder, tie_embeddings=False).eval()
    with torch.no_grad():  # only tokens 10 to 14 are ever said
        model.head = torch.nn.Module()
        model.head.points, model.head.forward = False, lambda decoded: said.expand(*decoded.outputs.shape[:-1], -1)
    said = torch.full((23,), -1e9)
    said[10:15] = torch.tensor([0.0, 0.0, 0.0, 0.0, math.log(6)])
    tokens = torch.full((400, 26), 7)
    tokens[:, 0] = 1
    source = torch.full((400, 3), 6)
    memory, state = model.start(source, source != PAD)
    calls = watched(model)
    torch.manual_seed(4)
    decode(model, tokens, memory, state, ratio=0.3, sampled=sampled)
    read = torch.cat(calls, 1) if model.decoder.stepwise else calls[-1]
    assert (read[:, 0] == 1).all()
    gold = read[:, 1:] == 7
    assert gold.float().mean().item() == pytest.approx(0.3, abs=0.02)
    for axis in (0, 1):  # tossed for each token and each row
        assert 0.05 < gold.float().mean(axis).std() * math.sqrt(gold.shape[axis]) < 0.7
    own = read[:, 1:][~gold]
    shares = [(own == token).float().mean().item() for token in range(10, 15)]
    assert shares == pytest.approx([0.1, 0.1, 0.1, 0.1, 0.6] if sampled else [0, 0, 0, 0, 1], abs=0.02)


def test_the_ratio_follows_the_optimizer_steps(network: Network, batch: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    made = dialog.DialogModule(
        network(), padding=PAD, teacher_forcing={"name": "linear", "steps": 4, "end": 0.2, "sampled": True}
    )
    read: list[float] = []
    monkeypatch.setattr(
        "dialog.training.module.decode", lambda *given, ratio, **rest: read.append(ratio) or decode(*given, **rest)
    )
    for number in range(6):
        monkeypatch.setattr(dialog.DialogModule, "global_step", number)
        made.training_step(batch(), 0)
    assert read == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2, 0.2])
    assert made.sampled


def test_a_module_can_be_sent_to_another_process(network: Callable[..., Seq2Seq]) -> None:
    forcing = {"name": "linear", "steps": 4}
    auxiliary = {"name": "reverse", "schedule": {"name": "exponential", "base": 0.5}}
    made = dialog.DialogModule(network(), padding=PAD, teacher_forcing=forcing, objectives=[auxiliary])
    again = copy.deepcopy(made)
    assert (
        [again.ratio(step) for step in range(6)]
        == [made.ratio(step) for step in range(6)]
        == [1, 0.75, 0.5, 0.25, 0, 0]
    )
    assert ForkingPickler.dumps(made)
