"""Teacher forcing: schedules against their formulas, the tokens that are fed against loops by
hand.
"""

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
def record_inputs(monkeypatch: pytest.MonkeyPatch) -> Callable[[Seq2Seq], Calls]:
    """``record_inputs(model)``: the tokens that are fed to the decoder, call by call."""

    def record(model: Seq2Seq) -> Calls:
        calls: Calls = []
        original = model.decode

        def recording(tokens: Tensor, *args: Any) -> Any:
            calls.append(tokens)
            return original(tokens, *args)

        monkeypatch.setattr(model, "decode", recording)
        return calls

    return record


# ------------------------------------------------------------------ schedules


@pytest.mark.parametrize(
    ("component", "formula"),
    [
        ({"name": "constant"}, lambda i: 1.0),
        ({"name": "constant", "ratio": 0.3}, lambda i: 0.3),
        ({"name": "linear", "steps": 40}, lambda i: max(0.0, 1.0 - i / 40)),
        (
            {"name": "linear", "steps": 40, "start": 0.9, "end": 0.5},
            lambda i: max(0.5, 0.9 - (0.9 - 0.5) / 40 * i),
        ),
        ({"name": "linear", "steps": 40, "start": 0.0, "end": 1.0}, lambda i: min(1.0, i / 40)),
        ({"name": "exponential", "base": 0.97}, lambda i: 0.97**i),
        ({"name": "exponential", "base": 0.97, "end": 0.2}, lambda i: max(0.2, 0.97**i)),
        ({"name": "inverse_sigmoid", "scale": 20.0}, lambda i: 20 / (20 + math.exp(i / 20))),
        (
            {"name": "inverse_sigmoid", "scale": 20.0, "end": 0.2},
            lambda i: max(0.2, 20 / (20 + math.exp(i / 20))),
        ),
    ],
)
def test_a_schedule_is_its_formula(
    component: dict[str, Any], formula: Callable[[int], float]
) -> None:
    schedule = build(TEACHER_FORCINGS, component)
    assert [schedule(step) for step in range(200)] == pytest.approx(
        [formula(step) for step in range(200)], abs=1e-12
    )
    assert 0 <= schedule(10**9) <= 1


def test_the_half_of_the_inverse_sigmoid() -> None:
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
def test_a_schedule_outside_0_to_1_is_an_error(component: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"must be (in|at least|above)"):
        build(TEACHER_FORCINGS, component)


# ------------------------------------------------------------------ fed tokens


@pytest.mark.parametrize("decoder", DECODERS)
def test_ratio_1_is_one_pass_with_gold_tokens(
    network: Network, batch: Draw, record_inputs: Callable[[Seq2Seq], Calls], decoder: str
) -> None:
    model, rows = network(decoder, dropout=0.3), batch()
    module = dialog.DialogModule(model, padding=PAD)
    torch.manual_seed(3)
    real = rows.target[:, 1:] != PAD
    gold = rows.target[:, 1:][real]
    scores = model(rows.source, rows.source != PAD, rows.target[:, :-1])[real]
    expected = module.loss(scores, gold).objective / rows.target_tokens
    calls = record_inputs(model)
    torch.manual_seed(3)
    assert torch.equal(module.training_step(rows, 0), expected)
    assert len(calls) == 1
    assert torch.equal(calls[0], rows.target[:, :-1])
    assert module.step.forced


def by_hand(model: Seq2Seq, rows: Batch) -> tuple[Tensor, Tensor]:
    """Logits of a network that is fed no gold token but the first, and what it is fed: row by row,
    token by token.
    """
    scores, inputs = [], []
    for source, target in zip(rows.source, rows.target[:, :-1], strict=True):
        source, fed, logits = source[source != PAD][None], [int(target[0])], []
        memory, state = model.start(source, source != PAD)
        first_pass = model.start(source, source != PAD)[1]
        for token in target:
            if not model.decoder.stepwise:  # the prediction follows the gold tokens
                forced, first_pass = model.step(token.view(1, 1), memory, first_pass)
            free, state = model.step(torch.tensor([[fed[-1]]]), memory, state)
            fed.append(int((free if model.decoder.stepwise else forced).argmax()))
            logits.append(free[0, 0])
        scores.append(torch.stack(logits))
        inputs.append(torch.tensor(fed[:-1]))
    return torch.stack(scores), torch.stack(inputs)


@pytest.mark.parametrize("head", ["vocabulary", "pointer_generator"])
@pytest.mark.parametrize("decoder", DECODERS)
def test_ratio_0_feeds_predictions(
    network: Network,
    batch: Draw,
    record_inputs: Callable[[Seq2Seq], Calls],
    decoder: str,
    head: str,
) -> None:
    model, rows = network(decoder, head={"name": head}).eval(), batch()
    expected, inputs = by_hand(model, rows)
    calls = record_inputs(model)
    memory, state = model.start(rows.source, rows.source != PAD)
    decoded = decode(model, rows.target[:, :-1], memory, state, ratio=0.0)
    logits = model.head(decoded)
    assert torch.equal(torch.cat(calls, 1) if model.decoder.stepwise else calls[-1], inputs)
    assert not torch.equal(inputs, rows.target[:, :-1])
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-12)
    leaves = list(model.parameters())
    mixture = torch.randn(logits.shape, dtype=logits.dtype)
    sums = [(mixture * scores).sum() for scores in (logits, expected)]
    gradients = [torch.autograd.grad(value, leaves, materialize_grads=True) for value in sums]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-10)


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("decoder", DECODERS)
def test_gold_tokens_are_fed_with_the_given_ratio(
    network: Network, record_inputs: Callable[[Seq2Seq], Calls], decoder: str, sampled: bool
) -> None:
    """The model never predicts the gold tokens, so they can be told apart."""
    model = network(decoder, tie_embeddings=False).eval()
    with torch.no_grad():  # it predicts tokens 10 to 14
        model.head = torch.nn.Module()
        model.head.points, model.head.forward = (
            False,
            lambda decoded: scores.expand(*decoded.outputs.shape[:-1], -1),
        )
    scores = torch.full((23,), -1e9)
    scores[10:15] = torch.tensor([0.0, 0.0, 0.0, 0.0, math.log(6)])
    tokens = torch.full((400, 26), 7)
    tokens[:, 0] = 1
    source = torch.full((400, 3), 6)
    memory, state = model.start(source, source != PAD)
    calls = record_inputs(model)
    torch.manual_seed(4)
    decode(model, tokens, memory, state, ratio=0.3, sampled=sampled)
    inputs = torch.cat(calls, 1) if model.decoder.stepwise else calls[-1]
    assert (inputs[:, 0] == 1).all()
    gold = inputs[:, 1:] == 7
    assert gold.float().mean().item() == pytest.approx(0.3, abs=0.02)
    for axis in (0, 1):  # drawn for each token of each row
        assert 0.05 < gold.float().mean(axis).std() * math.sqrt(gold.shape[axis]) < 0.7
    predicted = inputs[:, 1:][~gold]
    frequencies = [(predicted == token).float().mean().item() for token in range(10, 15)]
    assert frequencies == pytest.approx(
        [0.1, 0.1, 0.1, 0.1, 0.6] if sampled else [0, 0, 0, 0, 1], abs=0.02
    )


def test_the_ratio_follows_the_optimizer_steps(
    network: Network, batch: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    forcing = {"name": "linear", "steps": 4, "end": 0.2, "sampled": True}
    module = dialog.DialogModule(network(), padding=PAD, teacher_forcing=forcing)
    ratios: list[float] = []
    monkeypatch.setattr(
        "dialog.training.step.decode",
        lambda *args, ratio, **rest: ratios.append(ratio) or decode(*args, **rest),
    )
    for number in range(6):
        monkeypatch.setattr(dialog.DialogModule, "global_step", number)
        module.training_step(batch(), 0)
    assert ratios == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2, 0.2])
    assert module.step.sampled


def test_a_module_can_be_copied_and_pickled(network: Callable[..., Seq2Seq]) -> None:
    forcing = {"name": "linear", "steps": 4}
    auxiliary = {"name": "reverse", "schedule": {"name": "exponential", "base": 0.5}}
    module = dialog.DialogModule(
        network(), padding=PAD, teacher_forcing=forcing, objectives=[auxiliary]
    )
    for built in (module, copy.deepcopy(module)):
        assert [built.step.ratio(step) for step in range(6)] == [1, 0.75, 0.5, 0.25, 0, 0]
    assert ForkingPickler.dumps(module)
