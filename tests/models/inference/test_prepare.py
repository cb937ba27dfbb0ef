"""Prepared networks compute what the readable ones do."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dialog.models.attention import DotScorer
from dialog.models.heads import PreparedHead
from dialog.models.inference import PreparedNetworks, can_prepare, has_int8, prepare
from dialog.models.recurrent.encoder import Bfloat16Encoder
from dialog.models.seq2seq import Seq2Seq

VOCABULARY, PAD = 50, 0
Component = dict[str, Any]
ADDITIVE = {"attention": {"name": "additive", "size": 12}}
RECURRENT: Component = {"name": "lstm", "size": 16}
TRANSFORMER: Component = {"name": "transformer", "heads": 4, "feed_forward_size": 24, "layers": 2}
MODERN = {
    "norm": "rms_norm",
    "activation": "swiglu",
    "positions": {"name": "rotary"},
    "key_value_heads": 2,
}
LUONG: Component = {"name": "lstm_luong", "size": 16}
LUONG_DOT = LUONG | {"attention": {"name": "dot"}}
DEEP: Component = {"size": 20, "layers": 2}
CASES: list[tuple[Component, Component]] = [
    (RECURRENT, RECURRENT | ADDITIVE),
    (TRANSFORMER, {"name": "gru"} | DEEP | ADDITIVE),
    (RECURRENT, RECURRENT | {"attention": {"name": "none"}}),
    (TRANSFORMER, RECURRENT | {"attention": {"name": "scaled_dot"}}),
    (RECURRENT, LUONG_DOT),
    (TRANSFORMER, {"name": "gru_luong"} | DEEP | ADDITIVE),
    (RECURRENT, LUONG | DEEP | {"attention": {"name": "bilinear"}, "input_feeding": False}),
    (TRANSFORMER, LUONG | {"attention": {"name": "none"}}),
    (RECURRENT | {"bidirectional": False}, {"name": "lstm_plain", "size": 16}),
    (TRANSFORMER, {"name": "gru_plain", "bridge": {"name": "dense"}} | DEEP),
    (TRANSFORMER, TRANSFORMER),
    (
        RECURRENT,
        TRANSFORMER | {"norm_first": False, "activation": "gelu", "positions": {"name": "learned"}},
    ),
    (TRANSFORMER, TRANSFORMER | MODERN),
]
each_case = pytest.mark.parametrize(("encoder", "decoder"), CASES)


class OwnScorer(DotScorer):
    """Scores of a user."""


def network(encoder: Component, decoder: Component, head: str = "vocabulary") -> Seq2Seq:
    torch.manual_seed(3)
    parts = {"encoder": encoder, "decoder": decoder, "head": {"name": head}}
    model = Seq2Seq(VOCABULARY, padding=PAD, embedding_size=16, **parts).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))  # no bias is 0, no gain is 1
    return model


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out padding also of few tokens."""
    monkeypatch.setattr("dialog.models.transformer.real_tokens.ROWS", 4)


@pytest.fixture
def source() -> Tensor:
    """Three sources, of 9, 4 and 1 tokens."""
    source = torch.randint(1, VOCABULARY, (3, 9), generator=torch.Generator().manual_seed(5))
    source[1, 4:], source[2, 1:] = PAD, PAD
    return source


@torch.inference_mode()
def scores(model: Seq2Seq, source: Tensor, width: int = 1) -> Tensor:
    """Logits of all steps of a beam that is reordered after each, and loses its first source after
    three.
    """
    memory, state = model.start(source, source != PAD)
    memory, state = memory.repeat(width), state.repeat(width)
    generator = torch.Generator().manual_seed(8)
    sources, seen = len(source), []
    for step in range(6):
        tokens = torch.randint(1, VOCABULARY, (sources * width, 1), generator=generator)
        logits, state = model.step(tokens, memory, state)
        seen.append(logits)
        first = width if step == 2 else 0
        rows = torch.arange(first, sources * width).view(-1, width)
        rows = rows.gather(1, torch.randint(width, rows.shape, generator=generator)).flatten()
        state = state.select(rows)
        if first:
            memory, sources = memory.select(rows), sources - 1
    return torch.cat(seen)


@each_case
@pytest.mark.parametrize("width", [1, 3])
def test_scores_are_those_of_the_readable_network(
    encoder: Component, decoder: Component, width: int, source: Tensor
) -> None:
    model = network(encoder, decoder)
    assert can_prepare(model)
    torch.testing.assert_close(
        scores(prepare(model), source, width), scores(model, source, width), rtol=0, atol=2e-5
    )


@pytest.mark.parametrize(("encoder", "decoder"), CASES[-3:])
@pytest.mark.parametrize("width", [1, 3])
def test_attention_of_many_rows_is_the_same(
    encoder: Component,
    decoder: Component,
    width: int,
    source: Tensor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = network(encoder, decoder)
    fused = scores(prepare(model), source, width)
    for module in ("attention.multi_head", "transformer.decoder"):
        monkeypatch.setattr(f"dialog.models.{module}.MANY", 1)
    torch.testing.assert_close(scores(prepare(model), source, width), fused, rtol=0, atol=2e-5)


@each_case
def test_half_precision_stays_near_float32(
    encoder: Component, decoder: Component, source: Tensor
) -> None:
    model = network(encoder, decoder)
    exact = scores(model, source)
    assert (scores(prepare(model.bfloat16()), source) - exact).abs().max() < 0.05 * exact.std() * 3


@pytest.mark.parametrize(("encoder", "decoder"), CASES[-3:])
def test_activations_in_half_precision_stay_near_float32(
    encoder: Component, decoder: Component, source: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU: a residual sum is rounded like those of the network itself."""
    model = network(encoder, decoder)
    exact = scores(model, source, 3)
    monkeypatch.setattr(
        "dialog.models.transformer.decoder.activation_type", lambda weight: weight.dtype
    )
    torch.testing.assert_close(scores(prepare(model), source, 3), exact, rtol=0, atol=2e-5)
    half = model.bfloat16()
    own = (scores(half, source, 3) - exact).norm()
    prepared = scores(prepare(half), source, 3)
    assert prepared.dtype is torch.float32
    assert (prepared - exact).norm() < 1.2 * own


@pytest.mark.parametrize(("encoder", "decoder"), CASES[-3:])
@pytest.mark.parametrize("width", [1, 3])
def test_keys_and_values_of_many_rows_are_in_bfloat16(
    encoder: Component,
    decoder: Component,
    width: int,
    source: Tensor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = network(encoder, decoder)
    exact = scores(model, source, width)
    for module in ("attention.multi_head", "transformer.decoder"):
        monkeypatch.setattr(f"dialog.models.{module}.MANY", 1)
    monkeypatch.setattr("dialog.models.transformer.decoder.has_fast_bfloat16", lambda: True)
    half = prepare(model.bfloat16())
    with torch.inference_mode():
        memory, _ = half.start(source, source != PAD)
        assert memory.decoder.parts[1].dtype is torch.bfloat16
    assert (scores(half, source, width) - exact).abs().max() < 0.05 * exact.std() * 3


@pytest.mark.skipif(not has_int8("cpu"), reason="the processor has no VNNI")
@pytest.mark.parametrize("final", [False, True])
def test_recurrent_encoders_are_in_bfloat16(
    final: bool, source: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dialog.models.recurrent.encoder.has_fast_bfloat16", lambda: True)
    bridge = {"bridge": {"name": "final"}} if final else {}
    model = network(RECURRENT, RECURRENT | ADDITIVE | bridge)
    exact = scores(model, source)
    rounded = prepare(model, int8=True)
    assert isinstance(rounded.encoder, Bfloat16Encoder)
    assert 0 < (scores(rounded, source) - exact).abs().max() < 0.05 * exact.std() * 3
    assert next(model.encoder.parameters()).dtype is torch.float32


@pytest.mark.skipif(not has_int8("cpu"), reason="the processor has no VNNI")
@each_case
@pytest.mark.parametrize("smallest", ["LARGE", "MEDIUM", "FEW"])
def test_int8_stays_near_float32(
    encoder: Component,
    decoder: Component,
    smallest: str,
    source: Tensor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("MEDIUM", smallest):
        monkeypatch.setattr(f"dialog.models.kernels.products.{name}", 1)
    model = network(encoder, decoder)
    exact = scores(model, source)
    error = (scores(prepare(model, int8=True), source) - exact).abs().max()
    assert 0 < error < 0.05 * exact.std() * 3


@each_case
def test_several_tokens_at_once_are_one_after_the_other(
    encoder: Component, decoder: Component, source: Tensor
) -> None:
    model, tokens = prepare(network(encoder, decoder)), torch.randint(1, VOCABULARY, (3, 5))
    with torch.inference_mode():
        memory, state = model.start(source, source != PAD)
        whole, _ = model.step(tokens, memory, state)
        parts = []
        for token in tokens.split(1, 1):
            logits, state = model.step(token, memory, state)
            parts.append(logits)
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=0, atol=1e-5)


@each_case
def test_a_state_can_be_stepped_again(
    encoder: Component, decoder: Component, source: Tensor
) -> None:
    model, (one, other) = (
        prepare(network(encoder, decoder)),
        torch.randint(1, VOCABULARY, (2, 3, 1)),
    )
    with torch.inference_mode():
        memory, state = model.start(source, source != PAD)
        _, state = model.step(one, memory, state)
        first, _ = model.step(one, memory, state)
        model.step(other, memory, state)
        assert torch.equal(model.step(one, memory, state)[0], first)


@each_case
def test_a_hook_sees_the_weights_of_the_readable_network(
    encoder: Component, decoder: Component, source: Tensor
) -> None:
    model = network(encoder, decoder)
    seen: list[dict[int, Tensor]] = []
    for reader in (model, prepare(model)):
        with torch.inference_mode():
            memory, state = reader.start(source, source != PAD)
            memory, state = memory.repeat(2), state.repeat(2)
            maps: dict[int, Tensor] = {}
            for token in (4, 7):
                _, state = reader.step(
                    torch.full((6, 1), token),
                    memory,
                    state,
                    lambda part, used, maps=maps: maps.update({id(part): used}),
                )
        seen.append(maps)
    torch.testing.assert_close(seen[1], seen[0], rtol=0, atol=1e-6)


def test_only_known_parts_are_prepared() -> None:
    heads = network(TRANSFORMER, LUONG | {"attention": {"name": "multi_head", "heads": 2}})
    pointer = network(TRANSFORMER, TRANSFORMER, head="pointer")
    assert not can_prepare(heads)
    assert not can_prepare(pointer)
    assert not can_prepare(network(*CASES[0]).train())
    assert not can_prepare(network(*CASES[0]).double())
    watched = network(TRANSFORMER, TRANSFORMER)
    watched.decoder.layers[0].cross_attention.register_forward_hook(lambda *_: None)
    assert not can_prepare(watched)
    adapted = network(TRANSFORMER, TRANSFORMER)
    nn.utils.parametrizations.weight_norm(adapted.decoder.layers[0].cross_attention.query)
    assert not can_prepare(adapted)
    nn.utils.parametrizations.weight_norm(
        (recurrent := network(RECURRENT, LUONG_DOT)).decoder.attentional
    )
    assert not can_prepare(recurrent)
    subclassed = network(RECURRENT, LUONG_DOT)
    subclassed.decoder.attention.scorer = OwnScorer(16, 16)
    assert not can_prepare(subclassed)


def test_networks_are_prepared_again_when_weights_change() -> None:
    model = network(*CASES[0])
    networks = PreparedNetworks([model])
    (before,) = networks.current()
    assert isinstance(before.head, PreparedHead)
    assert networks.current()[0] is before
    with torch.no_grad():
        model.head.weight.mul_(2)
    (after,) = networks.current()
    assert after is not before
    model.head.weight.data.mul_(2)  # counts no version
    (later,) = networks.current()
    assert later is not after
    model.head.weight.grad = torch.ones_like(model.head.weight)
    torch.optim.AdamW(model.parameters(), fused=True).step()  # counts none either
    assert networks.current()[0] is not later
    with torch.autocast("cpu", torch.bfloat16):
        assert networks.current()[0] is model
