"""Laws of every kind of Transformer, names of its parts, and the place of each dropout."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.config.components import construct
from dialog.models.contracts import AttentionHook, Encoded, Only
from dialog.models.transformer import TransformerDecoder, TransformerEncoder

SIZE, LENGTH, SOURCE = 8, 5, 4
Stir = Callable[[nn.Module], nn.Module]
Draw = Callable[..., Tensor]
VARIANTS = [
    {"norm_first": first, "norm": norm, "activation": activation, "positions": positions, **groups}
    for first in (True, False)
    for norm in ("layer_norm", "rms_norm")
    for activation in ("relu", "gelu", "swiglu")
    for positions in (
        {"name": "sinusoidal"},
        {"name": "learned", "length": LENGTH},
        {"name": "rotary"},
    )
    for groups in ({}, {"key_value_heads": 2})
][::5]
"""Every fifth combination, so that all pairs of values occur."""
SOME = VARIANTS[::3]
MASK = torch.arange(SOURCE) < torch.tensor([[SOURCE], [2], [0]])


def name_of(variant: dict[str, Any]) -> str:
    return "-".join(
        str(value["name"] if isinstance(value, dict) else value) for value in variant.values()
    )


def encoder(**variant: Any) -> TransformerEncoder:
    arguments = {"heads": 4, "feed_forward_size": 6, "layers": 2, **variant}
    return construct(TransformerEncoder, input_size=SIZE, **arguments)


def decoder(**variant: Any) -> TransformerDecoder:
    arguments = {"heads": 4, "feed_forward_size": 6, "layers": 2, **variant}
    return construct(TransformerDecoder, input_size=SIZE, memory_size=SIZE, **arguments)


class Both(nn.Module):
    """An encoder with its decoder: inputs [B, S, D] and [B, T, D] -> outputs [B, T, D]."""

    def __init__(self, variant: dict[str, Any]) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder(**variant), decoder(**variant)

    def forward(
        self,
        source: Tensor,
        mask: Tensor,
        target: Tensor,
        hook: AttentionHook | None = None,
        cuts: tuple[int, ...] = (),
    ) -> Tensor:
        memory, state = self.decoder.start(self.encoder(source, mask, hook))
        parts = []
        for begin, end in itertools.pairwise([0, *cuts, target.shape[1]]):
            output, state = self.decoder(target[:, begin:end], memory, state, hook)
            assert state.length == end
            parts.append(output)
        return torch.cat(parts, 1)


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=1e-11)


# ------------------------------------------------------------------ laws


@pytest.mark.parametrize("variant", VARIANTS, ids=name_of)
def test_every_kind_keeps_the_laws(
    variant: dict[str, Any], draw: Draw, stir: Stir, agree: Callable[..., None]
) -> None:
    model, source, target = stir(Both(variant)), draw(3, SOURCE, SIZE), draw(3, LENGTH, SIZE)
    whole = model(source, MASK, target)
    for cuts in itertools.chain.from_iterable(
        itertools.combinations(range(1, LENGTH), n) for n in range(LENGTH)
    ):
        close(model(source, MASK, target, cuts=cuts), whole)
    changed = target.clone()
    changed[:, 3] = draw(3, SIZE)  # not a shift, which a layer norm removes
    after = model(source, MASK, changed)
    assert torch.equal(after[:, :3], whole[:, :3])
    assert not torch.isclose(after[:, 3:], whole[:, 3:]).all(-1).any()
    garbage = torch.where(MASK.unsqueeze(-1), source, 9.0)
    close(model(garbage, MASK, target), whole)
    longer = torch.cat([source, draw(3, 1, SIZE)], 1)
    close(model(longer, F.pad(MASK, (0, 1)), target), whole)
    agree([model(source, MASK, target, lambda *_: None)], [whole], list(model.parameters()))
    for name, parameter in model.named_parameters():
        (gradient,) = torch.autograd.grad(whole.sin().sum(), parameter, retain_graph=True)
        assert gradient.isfinite().all(), name
        if not name.endswith("key.bias"):  # the same for every key, so softmax removes it
            assert gradient.abs().max() > 1e-9, name


@pytest.mark.parametrize("hooked", [False, True], ids=["fused", "hooked"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("variant", SOME, ids=name_of)
def test_a_source_without_real_tokens_is_finite(
    variant: dict[str, Any], dtype: torch.dtype, hooked: bool, draw: Draw
) -> None:
    torch.manual_seed(0)
    model = Both({**variant, "dropout": 0.1, "layer_drop": 0.1}).to(dtype).train()
    source, target = (
        draw(3, length, SIZE).to(dtype).requires_grad_() for length in (SOURCE, LENGTH)
    )
    output = model(source, MASK, target, (lambda *_: None) if hooked else None)
    assert output.dtype is dtype
    output.float().square().mean().backward()
    assert output.isfinite().all()
    for leaf in (source, target, *model.parameters()):
        assert leaf.grad is not None
        assert leaf.grad.isfinite().all()


@pytest.mark.parametrize("variant", SOME, ids=name_of)
def test_mixed_precision_stays_near_float32(variant: dict[str, Any], draw: Draw) -> None:
    torch.manual_seed(0)
    model, source, target = (
        Both(variant),
        draw(3, SOURCE, SIZE).float(),
        draw(3, LENGTH, SIZE).float(),
    )
    expected = model(source, MASK, target)
    with torch.autocast("cpu", torch.bfloat16):
        output = model(source, MASK, target, cuts=(2,))
    output.float().square().mean().backward()
    torch.testing.assert_close(
        output.float(), expected, rtol=0.05, atol=0.05 * expected.abs().max().item()
    )


def test_learned_positions_end_at_their_length(draw: Draw, stir: Stir) -> None:
    model = stir(Both({"positions": {"name": "learned", "length": LENGTH}}))
    source, target = draw(3, SOURCE, SIZE), draw(3, LENGTH + 1, SIZE)
    model(source, MASK, target[:, :LENGTH])
    for cuts in ((), (LENGTH,), (2, 4)):
        with pytest.raises(Exception, match="length is 5, but a sequence has 6 tokens"):
            model(source, MASK, target, cuts=cuts)


@pytest.mark.parametrize("variant", SOME, ids=name_of)
def test_module_names(variant: dict[str, Any]) -> None:
    modules = dict(Both(variant).named_modules())
    for layer in (0, 1):
        for part in ("self_attention", "feed_forward"):
            assert f"encoder.layers.{layer}.{part}" in modules
            assert f"decoder.layers.{layer}.{part}" in modules
        assert f"decoder.layers.{layer}.cross_attention" in modules
    assert "decoder.pointer" not in modules


# ------------------------------------------------------------------ a hook for one module


def test_a_hook_for_one_module_leaves_the_rest_fused(
    draw: Draw, stir: Stir, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, source, target = stir(Both({"layers": 3})), draw(3, SOURCE, SIZE), draw(3, LENGTH, SIZE)
    watched = model.decoder.pointer
    assert watched is model.decoder.layers[-1].cross_attention
    kernel, calls, all_shown, shown = F.scaled_dot_product_attention, [], [], []
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda *a, **k: (calls.append(1), kernel(*a, **k))[1]
    )
    expected = model(source, MASK, target)
    assert len(calls) == 9  # self-attention of six layers, cross-attention of three
    close(model(source, MASK, target, lambda *both: all_shown.append(both)), expected)
    assert len(calls) == len(all_shown) == 9
    close(model(source, MASK, target, Only(watched, lambda *both: shown.append(both))), expected)
    assert len(calls) == 9 + 8
    ((module, weights),) = shown
    assert module is watched
    assert weights.shape == (3, 4, LENGTH, SOURCE)
    close(weights, next(each for module, each in all_shown if module is watched))


def test_pointer_is_read_only() -> None:
    with pytest.raises(AttributeError):
        decoder().pointer = None


# ------------------------------------------------------------------ dropouts

ALMOST = 1 - 1e-12


def zeroed(model: nn.Module, *parts: str) -> nn.Module:
    """Set the parameters of the named parts to 0; switch to evaluation."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if any(part in name for part in parts):
                parameter.zero_()
    return model.eval()


@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu"])
@pytest.mark.parametrize(
    ("dropouts", "dropped"),
    [
        ({"attention_dropout": ALMOST}, [".value.", "cross_attention.value."]),
        ({"activation_dropout": ALMOST}, ["feed_forward.0.", "feed_forward.gate."]),
        (
            {"dropout": ALMOST, "attention_dropout": 0.0, "activation_dropout": 0.0},
            ["attention.", "feed_forward."],
        ),
        ({"attention_dropout": 0.0, "activation_dropout": 0.0}, []),
    ],
    ids=["attention", "activation", "residual", "none"],
)
@pytest.mark.parametrize("hook", [None, lambda *_: None], ids=["fused", "hooked"])
def test_each_dropout_acts_in_its_place(
    hook: AttentionHook | None,
    dropouts: dict[str, float],
    dropped: list[str],
    activation: str,
    draw: Draw,
    stir: Stir,
) -> None:
    variant = {"activation": activation, **dropouts}
    model, source, target = (
        stir(Both(variant)).train(),
        draw(3, SOURCE, SIZE),
        draw(3, LENGTH, SIZE),
    )
    # that of the inputs is in test_seq2seq.py
    model.encoder.dropout = model.decoder.dropout = nn.Identity()
    reference = stir(Both({"activation": activation}))
    plain = reference(source, MASK, target)
    output = model(source, MASK, target, hook)
    if activation == "swiglu":  # its `value` is not an attention's
        dropped = [each.replace(".value.", "attention.value.") for each in dropped]
    close(output, zeroed(reference, *dropped)(source, MASK, target))
    assert torch.allclose(output, plain) is not bool(dropped)
    close(model.eval()(source, MASK, target, hook), plain)


def test_unset_dropouts_default_to_dropout() -> None:
    for named, expected in (
        ({}, (0.3, 0.3)),
        ({"attention_dropout": 0.0, "activation_dropout": 0.1}, (0.0, 0.1)),
    ):
        for layer in [*encoder(dropout=0.3, **named).layers, *decoder(dropout=0.3, **named).layers]:
            assert (layer.self_attention.dropout, layer.feed_forward[2].p) == expected
            assert layer.self_residual.dropout.p == layer.feed_residual.dropout.p == 0.3


def test_dropout_is_random_in_training_only(draw: Draw, stir: Stir) -> None:
    dropouts = ("dropout", "attention_dropout", "activation_dropout", "layer_drop")
    source, target = draw(3, SOURCE, SIZE), draw(3, LENGTH, SIZE)
    plain = stir(Both({}))(source, MASK, target)
    for each in dropouts:
        model = stir(Both({**dict.fromkeys(dropouts[1:3], 0.0), each: 0.4}))
        torch.manual_seed(0)
        assert len({model.train()(source, MASK, target).sum().item() for _ in range(20)}) > 1
        for _ in range(3):
            close(model.eval()(source, MASK, target), plain)


# ------------------------------------------------------------------ layer drop


def test_layers_are_dropped_independently(draw: Draw, stir: Stir) -> None:
    """Each output in training is that of a stack without some layers, with the stated
    probability.
    """
    states, target = draw(3, SOURCE, SIZE), draw(3, LENGTH, SIZE)
    encoded, mask = Encoded(states, MASK, states.mean(1)), MASK

    def decode(model: TransformerDecoder) -> Tensor:
        output, state = model(target, *model.start(encoded))
        assert state.length == LENGTH
        assert all(keys.shape[2] == values.shape[2] == LENGTH for keys, values in state.layers)
        return output

    stacks: list[tuple[Callable[..., nn.Module], Callable[[nn.Module], Tensor]]] = [
        (encoder, lambda model: model(states, mask).states),
        (decoder, decode),
    ]
    for make, run in stacks:
        model = stir(make(layer_drop=0.3))
        expected_outputs = {}
        for kept in itertools.product([False, True], repeat=2):
            part = stir(make())
            with torch.no_grad():
                for layer, keep in zip(part.layers, kept, strict=True):
                    for name, parameter in layer.named_parameters():
                        if not keep and ("output" in name or "feed_forward.3" in name):
                            parameter.zero_()  # the layer then adds 0
            expected_outputs[kept] = run(part)
        torch.manual_seed(0)
        counts = dict.fromkeys(expected_outputs, 0)
        for _ in range(400):
            output = run(model.train())
            (kept,) = [
                layers
                for layers, each in expected_outputs.items()
                if torch.allclose(each, output, rtol=0, atol=1e-11)
            ]
            counts[kept] += 1
        for kept, count in counts.items():
            chance = 0.7 ** sum(kept) * 0.3 ** (2 - sum(kept))
            assert abs(count / 400 - chance) < 4 * (chance * (1 - chance) / 400) ** 0.5
        close(run(model.eval()), expected_outputs[True, True])


@pytest.mark.parametrize("variant", SOME, ids=name_of)
def test_a_dropped_layer_takes_part_in_the_backward_pass(
    variant: dict[str, Any], draw: Draw, stir: Stir
) -> None:
    model, source, target = (
        stir(Both({**variant, "layer_drop": 0.5})),
        draw(3, SOURCE, SIZE),
        draw(3, LENGTH, SIZE),
    )
    torch.manual_seed(0)
    silent = set()
    for _ in range(30):
        model.zero_grad(set_to_none=True)
        model.train()(source, MASK, target).sin().sum().backward()
        gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
        assert all(
            gradient is not None and gradient.isfinite().all() for gradient in gradients.values()
        )
        silent |= {name for name, gradient in gradients.items() if not gradient.any()}
    assert {name.split(".")[2] for name in silent if "layers" in name} == {"0", "1"}
    assert any(name.startswith("decoder.layers.1.feed_forward") for name in silent)
