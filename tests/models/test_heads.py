"""Heads against loops over single numbers, in float64, and their inputs from a decoder."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.config.components import build
from dialog.errors import UserError
from dialog.models.heads import (
    HEADS,
    Decoded,
    Head,
    PointerGeneratorHead,
    PointerHead,
    VocabularyHead,
)
from dialog.models.seq2seq import Seq2Seq
from dialog.training.losses import LOSSES, build_loss, needs_of

Draw = Callable[..., Tensor]
Stir = Callable[[nn.Module], nn.Module]
Agree = Callable[..., None]
Vector = list[Tensor]

VOCABULARY, SIZE, PAD = 7, 4, 0
MAKE: dict[str, Callable[[], Head]] = {
    "vocabulary": lambda: VocabularyHead(VOCABULARY, SIZE),
    "pointer": lambda: PointerHead(VOCABULARY),
    "pointer_generator": lambda: PointerGeneratorHead(VOCABULARY, SIZE),
}
SOURCE = [[3, 5, 3, 1, 3], [2, 2, 2, 6, 0], [4, 0, 0, 0, 0]]  # repeated tokens; padding at the end
every_head = pytest.mark.parametrize("name", MAKE)


def dot(one: Vector, other: Vector) -> Tensor:
    return sum(
        (a * b for a, b in zip(one, other, strict=True)), start=torch.zeros((), dtype=torch.float64)
    )


@pytest.fixture
def decoded(draw: Draw) -> Decoded:
    """Three rows of two positions."""
    source = torch.tensor(SOURCE)
    weights = draw(3, 2, 5).masked_fill((source == PAD).unsqueeze(1), -torch.inf).softmax(-1)
    leaves = (draw(3, 2, SIZE), draw(3, 2, SIZE), weights)
    return Decoded(
        *(each.requires_grad_() for each in leaves), source.unsqueeze(1).expand(-1, 2, -1)
    )


def written(head: Any, output: Vector) -> Vector:
    energies = [dot(list(row), output).exp() for row in head.weight]
    return [energy / sum(energies) for energy in energies]


def pointed(weights: Vector, source: list[int]) -> Vector:
    places = [
        [place for place, token in enumerate(source) if token == word] for word in range(VOCABULARY)
    ]
    return [sum((weights[place] for place in same), start=0 * weights[0]) for same in places]


def generation(head: Any, output: Vector, entered: Vector) -> Tensor:
    return (dot(list(head.gate.weight[0]), [*output, *entered]) + head.gate.bias[0]).sigmoid()


def by_hand(name: str, head: Head, decoded: Decoded) -> Tensor:
    """Probabilities [B, T, V]: Vinyals et al. 2015; See et al. 2017, equations 8 and 9."""
    rows = []
    for row, source in enumerate(SOURCE):
        for output, entered, weights in zip(
            decoded.outputs[row], decoded.inputs[row], decoded.weights[row], strict=True
        ):
            match name:
                case "vocabulary":
                    mixed = written(head, list(output))
                case "pointer":
                    mixed = pointed(list(weights), source)
                case _:
                    gate = generation(head, list(output), list(entered))
                    pairs = zip(
                        written(head, list(output)), pointed(list(weights), source), strict=True
                    )
                    mixed = [gate * write + (1 - gate) * point for write, point in pairs]
            rows.append(torch.stack(mixed))
    return torch.unflatten(torch.stack(rows), 0, (3, 2))


def test_cases_cover_all_heads() -> None:
    assert MAKE.keys() == HEADS.keys()


@every_head
def test_head_follows_its_formula(name: str, decoded: Decoded, stir: Stir, agree: Agree) -> None:
    head = stir(MAKE[name]())
    scores = head(decoded)
    probabilities = scores.exp() if head.points else scores.softmax(-1)
    used = {"vocabulary": decoded.outputs, "pointer": decoded.weights}
    leaves = [used[name]] if name in used else [decoded.outputs, decoded.inputs, decoded.weights]
    agree([probabilities], [by_hand(name, head, decoded)], [*leaves, *head.parameters()])


@every_head
def test_softmax_of_the_scores_is_the_distribution(name: str, decoded: Decoded, stir: Stir) -> None:
    head = stir(MAKE[name]())
    expected = by_hand(name, head, decoded)
    torch.testing.assert_close(head(decoded).softmax(-1), expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(expected.sum(-1), torch.ones(3, 2).double(), rtol=0, atol=1e-12)


def test_copy_probability_sums_all_positions_of_a_token(decoded: Decoded) -> None:
    scores, weights = PointerHead(VOCABULARY)(decoded), decoded.weights
    torch.testing.assert_close(
        scores[0, :, 3].exp(), weights[0, :, 0] + weights[0, :, 2] + weights[0, :, 4]
    )
    torch.testing.assert_close(scores[1, :, 2].exp(), weights[1, :, :3].sum(-1))
    torch.testing.assert_close(scores[2, :, 4].exp(), torch.ones(2).double())
    assert (scores[0, :, 2] < math.log(1e-29)).all()  # not in the source


def test_measures_are_means_over_positions(decoded: Decoded, stir: Stir) -> None:
    head = stir(MAKE["pointer_generator"]())
    assert isinstance(head, PointerGeneratorHead)
    positions = Decoded(
        *(
            getattr(decoded, name).flatten(0, 1)
            for name in ("outputs", "inputs", "weights", "source")
        )
    )
    (measure,) = head.measures(positions).items()
    gates = [
        generation(head, list(output), list(entered))
        for output, entered in zip(positions.outputs, positions.inputs, strict=True)
    ]
    assert measure[0] == "generation_probability"
    torch.testing.assert_close(measure[1].mean(), sum(gates) / 6, rtol=0, atol=1e-12)
    torch.testing.assert_close(head(positions), head(decoded).flatten(0, 1), rtol=0, atol=1e-12)
    assert MAKE["vocabulary"]().measures(positions) == MAKE["pointer"]().measures(positions) == {}


@every_head
@pytest.mark.parametrize("gate", [-1e4, -100.0, 0.0, 100.0, 1e4])
@pytest.mark.parametrize("autocast", [False, True])
def test_scores_and_gradients_are_finite_for_every_gate(
    name: str, gate: float, autocast: bool, decoded: Decoded, stir: Stir
) -> None:
    head = stir(MAKE[name]()).float()
    for part, parameter in head.named_parameters():
        if part == "gate.bias":
            nn.init.constant_(parameter, gate)
    sharp = torch.zeros(3, 2, 5).index_fill(2, torch.tensor([0]), 1)  # all attention on one token
    for weights in (sharp, torch.zeros(3, 2, 5), decoded.weights.detach().float()):
        leaves = [
            each.detach().float().requires_grad_()
            for each in (20 * decoded.outputs, decoded.inputs, weights)
        ]
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            entering = [each.bfloat16() if autocast else each for each in leaves]
            scores = head(Decoded(*entering, decoded.source))
            loss = F.cross_entropy(scores.flatten(0, 1), torch.tensor([3, 0, 2, 6, 4, 1]))
        loss.backward()
        assert scores.isfinite().all()
        assert scores.dtype is torch.float32 or name == "vocabulary"
        assert all(
            each.grad is None or each.grad.isfinite().all()
            for each in (*leaves, *head.parameters())
        )


@pytest.mark.parametrize("name", [name for name, make in MAKE.items() if make().points])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_probabilities_of_halves_sum_in_float32(name: str, dtype: torch.dtype, draw: Draw) -> None:
    """The sum over 500 tokens and 300 positions, each rounded to a half, would not be 1."""
    head = HEADS[name](500, SIZE, tied=None) if name == "pointer_generator" else HEADS[name](500)
    weights = draw(2, 300).softmax(-1).float()
    source = torch.randint(500, (2, 300), generator=torch.Generator().manual_seed(1))
    outputs, inputs = (draw(2, SIZE).to(dtype) for _ in range(2))
    scores = head.to(dtype)(Decoded(outputs, inputs, weights, source))
    assert scores.dtype is torch.float32
    torch.testing.assert_close(scores.logsumexp(-1), torch.zeros(2), rtol=0, atol=1e-5)


@every_head
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("loss", LOSSES)
def test_no_head_or_loss_overflows_in_halves(
    name: str, loss: str, dtype: torch.dtype, decoded: Decoded
) -> None:
    """At the edge of the format, and without any attention."""
    head = MAKE[name]().to(dtype)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.fill_(8.0)
    # 4 x 8 x 1900 = 60,800, where float16 ends at 65,504
    outputs = torch.full((6, SIZE), 1900.0, dtype=dtype)
    outputs[1::2] *= -1
    inputs, weights = torch.zeros(6, SIZE, dtype=dtype), torch.zeros(6, 5)
    weights[:3, 0] = 1
    leaves = [each.requires_grad_() for each in (outputs, inputs, weights)]
    scores = head(Decoded(*leaves, decoded.source.flatten(0, 1)))
    made = build_loss(LOSSES, {"name": loss}, padding=PAD)
    offered = {"previous": torch.tensor([[1, 2]] * 6), "second_pass": scores.detach()}
    needed = needs_of(made) & offered.keys()
    sums = made(
        scores, torch.tensor([3, 0, 2, 6, 4, 1]), **{name: offered[name] for name in needed}
    )
    sums.objective.backward()
    assert all(each.isfinite() and each.dtype is torch.float32 for each in sums)
    assert all(
        each.grad is None or each.grad.isfinite().all() for each in (*leaves, *head.parameters())
    )


@pytest.mark.parametrize("name", ["vocabulary", "pointer_generator"])
def test_tied_head_uses_the_embedding_table(name: str, decoded: Decoded) -> None:
    table = nn.Parameter(torch.randn(VOCABULARY, SIZE).double())
    head = HEADS[name](VOCABULARY, SIZE, tied=table).double()
    assert head.weight is table
    head(decoded).square().sum().backward()
    assert table.grad is not None
    assert table.grad.any(1).all()


# ------------------------------------------------------------------ inputs of a head

ENCODER = {"name": "gru", "size": 6}
TRANSFORMER = {"name": "transformer", "heads": 2, "feed_forward_size": 5, "layers": 3}
ADDITIVE, HEADED = {"name": "additive", "size": 3}, {"name": "multi_head", "heads": 3}
DECODERS: dict[str, dict[str, Any]] = {
    "bahdanau": {"name": "lstm", "size": 5, "attention": ADDITIVE},
    "bahdanau with heads": {"name": "gru", "size": 5, "attention": HEADED},
    "luong": {"name": "lstm_luong", "size": 5, "attention": HEADED},
    "luong without feeding": {
        "name": "gru_luong",
        "size": 5,
        "attention": HEADED,
        "input_feeding": False,
    },
    "transformer": TRANSFORMER,
}


def model_of(decoder: dict[str, Any], head: str = "pointer_generator") -> Seq2Seq:
    sizes = {"padding": PAD, "embedding_size": SIZE}
    return Seq2Seq(VOCABULARY, **sizes, encoder=ENCODER, decoder=decoder, head={"name": head})


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
@pytest.mark.parametrize("hooked", [False, True], ids=["alone", "hooked"])
def test_head_points_with_the_decoders_attention(
    decoder: dict[str, Any], hooked: bool, stir: Stir
) -> None:
    model, source, target = (
        stir(model_of(decoder)),
        torch.tensor(SOURCE),
        torch.tensor([[1, 2, 3]] * 3),
    )
    memory, state = model.start(source, source != PAD)
    shown: list[tuple[nn.Module, Tensor]] = []
    model.decode(target, memory, state, lambda *call: shown.append(call))
    ours = [weights for module, weights in shown if module is model.decoder.pointer]
    assert len(ours) == 1
    seen: list[tuple[nn.Module, Tensor]] = []
    decoded, _ = model.decode(
        target, memory, state, (lambda *call: seen.append(call)) if hooked else None
    )
    torch.testing.assert_close(decoded.weights, ours[0].mean(1), rtol=0, atol=1e-12)
    assert torch.equal(decoded.source, source.unsqueeze(1).expand(-1, 3, -1))
    torch.testing.assert_close(decoded.inputs, model.target_embedding(target), rtol=0, atol=0)
    assert len(seen) == hooked * len(shown)  # a hook sees all that it would see without a pointer
    if decoder is TRANSFORMER:
        assert model.decoder.pointer is model.decoder.layers[-1].cross_attention
    logits = model(source, source != PAD, target)
    torch.testing.assert_close(logits.exp().sum(-1), torch.ones(3, 3).double(), rtol=0, atol=1e-12)
    torch.testing.assert_close(logits, model.head(decoded), rtol=0, atol=1e-12)


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
def test_whole_target_equals_token_by_token(decoder: dict[str, Any], stir: Stir) -> None:
    model, source, target = (
        stir(model_of(decoder)),
        torch.tensor(SOURCE),
        torch.tensor([[1, 2, 3]] * 3),
    )
    memory, state = model.start(source, source != PAD)
    parts = []
    for token in target.split(1, 1):
        logits, state = model.step(token, memory, state)
        parts.append(logits)
    torch.testing.assert_close(
        torch.cat(parts, 1), model(source, source != PAD, target), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("head", ["vocabulary", "pointer_generator"])
def test_only_the_pointer_leaves_the_fused_kernel(
    head: str, stir: Stir, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, source, calls = stir(model_of(TRANSFORMER, head)), torch.tensor(SOURCE), []
    fused = F.scaled_dot_product_attention

    def counted(*tensors: Tensor, **options: Any) -> Tensor:
        calls.append(1)
        return fused(*tensors, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counted)
    model(source, source != PAD, torch.tensor([[1, 2, 3]] * 3))
    assert len(calls) == 2 * TRANSFORMER["layers"] - (head != "vocabulary")


@pytest.mark.parametrize("name", ["lstm", "gru", "lstm_luong", "gru_luong"])
@pytest.mark.parametrize("head", ["pointer", "pointer_generator"])
def test_a_head_that_points_needs_attention(name: str, head: str) -> None:
    decoder = {"name": name, "size": 6, "attention": {"name": "none"}}
    with pytest.raises(
        ValueError, match=f"^head '{head}' points with .* but the decoder has none; set model"
    ):
        model_of(decoder, head)
    assert model_of(decoder, "vocabulary").decoder.pointer is None


@pytest.mark.parametrize("name", ["pointer", "pointer_generator"])
def test_negative_coverage_is_an_error(name: str) -> None:
    with pytest.raises(UserError, match=r"coverage must be at least 0, not -1\.0"):
        build(HEADS, {"name": name, "coverage": -1.0}, vocabulary=5, size=3)
