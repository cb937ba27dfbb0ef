"""FLOPs against sums of products written down by hand."""

import pytest
from operations import needs_onednn

from dialog.analysis.flops import forward_flops, state_bytes
from dialog.models.kernels import linear
from dialog.models.seq2seq import Seq2Seq

V, E, S, T = 50, 16, 23, 21
BUFFER = 16  # tokens for which a cache has room at first


@pytest.fixture(params=["mkl", pytest.param("onednn", marks=needs_onednn)], autouse=True)
def products(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "mkl_is_slow", lambda: request.param == "onednn")


def make(encoder: dict, decoder: dict) -> Seq2Seq:
    return Seq2Seq(V, padding=0, embedding_size=E, encoder=encoder, decoder=decoder).eval()


@pytest.mark.parametrize(("name", "gates"), [("lstm", 4), ("gru", 3)])
def test_of_a_recurrent_encoder_and_bahdanaus_decoder(name: str, gates: int) -> None:
    d = k = 12
    model = make(
        {"name": name, "size": d},
        {"name": name, "size": d, "attention": {"name": "additive", "size": k}},
    )
    encoder = S * 2 * gates * (d // 2) * (E + d // 2)
    once = S * d * k + d * d
    a_step = gates * d * (d + d) + d * k + S * k + S * d
    per_token = gates * d * E + 2 * E * (d + E + d) + E * V
    assert forward_flops(model, S, T) == 2 * (encoder + once + T * (a_step + per_token))


def test_of_a_transformer() -> None:
    inner, layers = 24, 2
    part = {"name": "transformer", "heads": 4, "feed_forward_size": inner, "layers": layers}
    encoder = S * (4 * E * E + 2 * E * inner) + 2 * S * S * E
    decoder = T * (6 * E * E + 2 * E * inner) + S * 2 * E * E + 2 * T * T * E + 2 * T * S * E
    assert forward_flops(make(part, part), S, T) == 2 * (layers * (encoder + decoder) + T * E * V)


@pytest.mark.parametrize("source", [1, 100, 1000])
def test_bytes_of_states(source: int) -> None:
    layers = 3
    part = {"name": "transformer", "heads": 4, "feed_forward_size": 24, "layers": layers}
    assert state_bytes(make(part, part), source) == 4 * layers * 2 * (source + BUFFER) * E
    encoder = {"name": "lstm", "size": 12}
    without = {"name": "lstm", "size": 12, "attention": {"name": "none"}}
    fixed = state_bytes(make(encoder, without), source)
    assert fixed == state_bytes(make(encoder, without), 2 * source)
    keys = {"name": "lstm", "size": 12, "attention": {"name": "additive", "size": 7}}
    small, large = (state_bytes(make(encoder, keys), length) for length in (source, 2 * source))
    assert small is not None
    assert large is not None
    assert large - small == 4 * source * (12 + 7)


def test_a_source_that_is_too_long_has_no_state() -> None:
    positions = {"name": "learned", "length": 8}
    part: dict = {"name": "transformer", "heads": 4, "feed_forward_size": 24, "layers": 1}
    part["positions"] = positions
    assert state_bytes(make(part, part), 8) is not None
    assert state_bytes(make(part, part), 9) is None
