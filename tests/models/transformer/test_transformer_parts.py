"""Norms, feed-forward networks, layers and settings against loops over numbers, in float64."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dialog.config.components import Family, build, construct
from dialog.errors import UserError
from dialog.models.contracts import AttentionHook, Encoded
from dialog.models.seq2seq import DECODERS, ENCODERS
from dialog.models.transformer import TransformerDecoder, TransformerEncoder
from dialog.models.transformer.sublayers import FEED_FORWARDS, NORMS, LayerDrop, SwiGLU

SIZE, INNER = 6, 5
NAMES = ("query", "key", "value", "output")
Stir = Callable[[nn.Module], nn.Module]
Draw = Callable[..., Tensor]
Vector = list[float]
Matrix = list[Vector]


# ------------------------------------------------------------------ the formulas, number by number


def times(matrix: Matrix, vector: Vector) -> Vector:
    return [
        math.fsum(weight * number for weight, number in zip(row, vector, strict=True))
        for row in matrix
    ]


def plus(one: Vector, other: Vector) -> Vector:
    return [a + b for a, b in zip(one, other, strict=True)]


def rms_norm(x: Vector, gain: Vector) -> Vector:
    scale = math.sqrt(math.fsum(number * number for number in x) / len(x) + 1e-5)
    return [g * number / scale for g, number in zip(gain, x, strict=True)]


def layer_norm(x: Vector, gain: Vector, bias: Vector) -> Vector:
    mean = math.fsum(x) / len(x)
    scale = math.sqrt(math.fsum((number - mean) ** 2 for number in x) / len(x) + 1e-5)
    return [g * (number - mean) / scale + b for g, b, number in zip(gain, bias, x, strict=True)]


def swiglu(x: Vector, gate: Matrix, value: Matrix, output: Matrix) -> Vector:
    gated = [number / (1 + math.exp(-number)) for number in times(gate, x)]
    return times(output, [a * b for a, b in zip(gated, times(value, x), strict=True)])


def turned(x: Vector, place: int) -> Vector:
    pairs = []
    for i in range(len(x) // 2):
        angle = place / 10000 ** (2 * i / len(x))
        one, two = x[2 * i], x[2 * i + 1]
        pairs += [
            math.cos(angle) * one - math.sin(angle) * two,
            math.sin(angle) * one + math.cos(angle) * two,
        ]
    return pairs


def attention(
    queries: Matrix, source: Matrix, named: dict[str, Any], *, rotary: bool, causal: bool
) -> Matrix:
    """Attention without biases: four heads in two groups, each group with its own keys and
    values.
    """
    heads, groups, width, outputs = 4, 2, len(queries[0]) // 4, []
    for place, query in enumerate(times(named["query"], x) for x in queries):
        seen, joined = source[: place + 1] if causal else source, []
        for head in range(heads):
            own = slice(head * width, (head + 1) * width)
            shared = slice(head * groups // heads * width, (head * groups // heads + 1) * width)
            turned_query, scores = turned(query[own], place * rotary), []
            for other, key in enumerate(times(named["key"], x)[shared] for x in seen):
                score = sum(
                    a * b for a, b in zip(turned_query, turned(key, other * rotary), strict=True)
                )
                scores.append(math.exp(score / math.sqrt(width)))
            shares = [score / sum(scores) for score in scores]
            read = [times(named["value"], x)[shared] for x in seen]
            joined += [
                sum(share * x[d] for share, x in zip(shares, read, strict=True))
                for d in range(width)
            ]
        outputs.append(times(named["output"], joined))
    return outputs


# ------------------------------------------------------------------ parts


def test_rms_norm_follows_its_formula(draw: Draw, stir: Stir) -> None:
    norm, states = stir(NORMS["rms_norm"](SIZE)), draw(2, 3, SIZE)
    states[0, 0] = 0
    gain = norm.weight.tolist()
    expected = [[rms_norm(x, gain) for x in row] for row in states.tolist()]
    torch.testing.assert_close(
        norm(states), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12
    )
    assert [name for name, _ in norm.named_parameters()] == ["weight"]


def test_layer_norm_follows_its_formula(draw: Draw, stir: Stir) -> None:
    norm, states = stir(NORMS["layer_norm"](SIZE)), draw(2, 3, SIZE)
    gain, bias = norm.weight.tolist(), norm.bias.tolist()
    expected = [[layer_norm(x, gain, bias) for x in row] for row in states.tolist()]
    torch.testing.assert_close(
        norm(states), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12
    )


def test_swiglu_follows_its_formula(draw: Draw, stir: Stir) -> None:
    module, states = stir(SwiGLU(SIZE, INNER, 0.0)), 3 * draw(2, 3, SIZE)
    matrices = [
        module.gate.weight.tolist(),
        module.value.weight.tolist(),
        module.output.weight.tolist(),
    ]
    expected = [[swiglu(x, *matrices) for x in row] for row in states.tolist()]
    torch.testing.assert_close(
        module(states), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-11
    )
    assert torch.autograd.gradcheck(module, states.requires_grad_())


def test_swiglu_has_three_matrices_without_biases() -> None:
    shapes = {name: tuple(each.shape) for name, each in SwiGLU(6, 5, 0.0).named_parameters()}
    assert shapes == {"gate.weight": (5, 6), "value.weight": (5, 6), "output.weight": (6, 5)}


@pytest.mark.parametrize(
    ("activation", "function"),
    [("relu", lambda x: max(0.0, x)), ("gelu", lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2)],
)
def test_feed_forward_follows_its_formula(
    activation: str, function: Callable[[float], float], draw: Draw, stir: Stir
) -> None:
    module, states = stir(FEED_FORWARDS[activation](SIZE, INNER, 0.0)), draw(2, 3, SIZE)
    first, _, _, second = module
    expected = []
    for x in states.flatten(0, 1).tolist():
        inner = [
            function(number)
            for number in plus(times(first.weight.tolist(), x), first.bias.tolist())
        ]
        expected.append(plus(times(second.weight.tolist(), inner), second.bias.tolist()))
    torch.testing.assert_close(
        module(states).flatten(0, 1),
        torch.tensor(expected, dtype=torch.float64),
        rtol=0,
        atol=1e-12,
    )


# ------------------------------------------------------------------ whole stacks of the modern kind

MODERN: dict[str, Any] = {
    "heads": 4,
    "feed_forward_size": INNER,
    "layers": 2,
    "norm": "rms_norm",
    "activation": "swiglu",
    "positions": {"name": "rotary"},
    "key_value_heads": 2,
}


def without_biases(module: nn.Module) -> nn.Module:
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
    return module


def weights(module: nn.Module, names: tuple[str, ...]) -> dict[str, Matrix]:
    return {name: getattr(module, name).weight.tolist() for name in names}


def states_of(model: nn.Module, row: Matrix, source: Matrix | None, norm_first: bool) -> Matrix:
    """The states of one row of an encoder, or of a decoder if there is a source."""
    for layer in model.layers:
        own, feed = (
            weights(layer.self_attention, NAMES),
            weights(layer.feed_forward, ("gate", "value", "output")),
        )
        causal = source is not None
        steps = [
            (
                layer.self_residual,
                lambda x, w=own, c=causal: attention(x, x, w, rotary=True, causal=c),
            )
        ]
        if source is not None:
            other = weights(layer.cross_attention, NAMES)
            consult = lambda x, w=other: attention(x, source, w, rotary=False, causal=False)  # noqa: E731
            steps.append((layer.cross_residual, consult))
        steps.append((layer.feed_residual, lambda x, f=feed: [swiglu(each, **f) for each in x]))
        for residual, sublayer in steps:
            gain = residual.norm.weight.tolist()
            if norm_first:
                row = list(map(plus, row, sublayer([rms_norm(x, gain) for x in row])))
            else:
                row = [rms_norm(x, gain) for x in map(plus, row, sublayer(row))]
    return [rms_norm(x, model.norm.weight.tolist()) for x in row] if norm_first else row


@pytest.mark.parametrize("hook", [None, lambda *_: None], ids=["fused", "hooked"])
@pytest.mark.parametrize("norm_first", [True, False], ids=["norm first", "norm last"])
def test_modern_encoder_follows_its_formula(
    norm_first: bool, hook: AttentionHook | None, draw: Draw, stir: Stir
) -> None:
    encoder = without_biases(
        stir(construct(TransformerEncoder, input_size=16, norm_first=norm_first, **MODERN))
    )
    inputs, mask = draw(2, 5, 16).requires_grad_(), torch.arange(5) < torch.tensor([[5], [3]])
    encoded = encoder(inputs, mask, hook)
    for row, length in enumerate((5, 3)):
        rows = states_of(encoder, inputs[row, :length].tolist(), None, norm_first)
        expected = torch.tensor(rows, dtype=torch.float64)
        torch.testing.assert_close(encoded.states[row, :length], expected, rtol=0, atol=1e-10)
        torch.testing.assert_close(encoded.summary[row], expected.mean(0), rtol=0, atol=1e-10)
    assert torch.autograd.gradcheck(lambda x: encoder(x, mask, hook).states, inputs, fast_mode=True)


@pytest.mark.parametrize("hook", [None, lambda *_: None], ids=["fused", "hooked"])
@pytest.mark.parametrize("norm_first", [True, False], ids=["norm first", "norm last"])
def test_modern_decoder_follows_its_formula(
    norm_first: bool, hook: AttentionHook | None, draw: Draw, stir: Stir
) -> None:
    decoder = without_biases(
        stir(
            construct(
                TransformerDecoder, input_size=16, memory_size=16, norm_first=norm_first, **MODERN
            )
        )
    )
    inputs, states = draw(2, 4, 16).requires_grad_(), draw(2, 5, 16)
    mask = torch.arange(5) < torch.tensor([[5], [3]])

    def outputs(x: Tensor) -> Tensor:
        output: Tensor = decoder(x, *decoder.start(Encoded(states, mask, states.mean(1))), hook)[0]
        return output

    for row, length in enumerate((5, 3)):
        rows = states_of(decoder, inputs[row].tolist(), states[row, :length].tolist(), norm_first)
        expected = torch.tensor(rows, dtype=torch.float64)
        torch.testing.assert_close(outputs(inputs)[row], expected, rtol=0, atol=1e-10)
    assert torch.autograd.gradcheck(outputs, inputs, fast_mode=True)


# ------------------------------------------------------------------ layer drop


def test_layer_drop_has_its_rate_in_training_only() -> None:
    drop, before, after = LayerDrop(0.3), torch.zeros(2, 3, 4), torch.ones(2, 3, 4)
    torch.manual_seed(0)
    drawn = [drop(before, after) for _ in range(4000)]
    # the same for the whole batch
    assert all(torch.equal(each, before) or torch.equal(each, after) for each in drawn)
    kept = sum(each[0, 0, 0].item() for each in drawn) / 4000
    assert kept == pytest.approx(0.7, abs=4 * math.sqrt(0.7 * 0.3 / 4000))
    assert all(drop.eval()(before, after) is after for _ in range(50))
    assert LayerDrop(0.0)(before, after) is after


def test_a_dropped_layer_gets_gradients_of_zero() -> None:
    drop, before, after = (
        LayerDrop(0.5),
        torch.zeros(3, requires_grad=True),
        torch.ones(3, requires_grad=True),
    )
    torch.manual_seed(0)
    seen = set()
    for _ in range(50):
        gradients = torch.autograd.grad(drop(before, after).sum(), (before, after))
        seen.add(tuple(int(each.sum().item()) for each in gradients))
    assert seen == {(3, 0), (0, 3)}


# ------------------------------------------------------------------ settings


def test_encoder_and_decoder_take_the_same_arguments() -> None:
    ours, theirs = (family.arguments("transformer") for family in (ENCODERS, DECODERS))
    assert list(ours.items()) == list(theirs.items())
    assert ours["positions"].default == {"name": "sinusoidal"}


def test_names_of_norms_and_activations() -> None:
    assert list(NORMS) == ["layer_norm", "rms_norm"]
    assert list(FEED_FORWARDS) == ["relu", "gelu", "swiglu"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"layers": 0}, "layers must be at least 1, not 0"),
        ({"heads": 3}, "size 8 is not a multiple of 3 heads"),
        (
            {"heads": 3, "positions": {"name": "rotary"}},
            "rotary: size 8 is not a multiple of 3 heads",
        ),
        (
            {"heads": 8, "positions": {"name": "rotary"}},
            "rotary: the width of a head, 8 / 8, must be even",
        ),
        ({"positions": {"name": "rotery"}}, "unknown positions 'rotery'; did you mean 'rotary'?"),
        (
            {"positions": {"name": "learned", "length": 0}},
            "learned: length must be at least 1, not 0",
        ),
        (
            {"positions": {"name": "rotary", "heads": 2}},
            "rotary: 'heads' is set by the recipe's other parts",
        ),
        ({"feed_forward_size": 0}, "feed_forward_size must be at least 1, not 0"),
        ({"norm": "batch"}, "norm must be one of layer_norm, rms_norm, not 'batch'"),
        ({"activation": "tanh"}, "activation must be one of relu, gelu, swiglu, not 'tanh'"),
        ({"key_value_heads": 3}, "heads 4 is not a multiple of 3 key_value_heads"),
        ({"key_value_heads": 0}, "heads 4 is not a multiple of 0 key_value_heads"),
        ({"key_value_heads": "two"}, "key_value_heads must be int | None, not 'two'"),
        ({"dropout": -0.1}, "dropout must be at least 0 and below 1, not -0.1"),
        ({"attention_dropout": 1.0}, "attention_dropout must be at least 0 and below 1, not 1.0"),
        ({"activation_dropout": 2}, "activation_dropout must be at least 0 and below 1, not 2"),
        ({"activation_dropout": "much"}, "activation_dropout must be float | None, not 'much'"),
        ({"layer_drop": 1}, "layer_drop must be at least 0 and below 1, not 1"),
    ],
)
@pytest.mark.parametrize("table", [ENCODERS, DECODERS], ids=["encoder", "decoder"])
def test_invalid_settings_are_one_clear_line(
    table: Family[nn.Module], arguments: dict[str, Any], line: str
) -> None:
    component = {
        "name": "transformer",
        "heads": 4,
        "feed_forward_size": 12,
        "layers": 2,
        **arguments,
    }
    runtime = {"input_size": 8, "dropout": component.pop("dropout", 0.0)}
    with pytest.raises(UserError) as caught:
        build(table, component, **runtime, **({"memory_size": 8} if table is DECODERS else {}))
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)
