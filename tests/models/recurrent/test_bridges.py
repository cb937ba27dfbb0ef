"""Bridges from the encoder's summary to the first state."""

from typing import Any

import pytest
import torch
from recurrent_by_hand import (
    DECODERS,
    MEMORY,
    SIZE,
    Agree,
    Draw,
    Stir,
    decoder_of,
    every_decoder,
    stack,
    times,
)
from torch import nn

from dialog.errors import UserError
from dialog.models.contracts import Encoded
from dialog.models.recurrent import LSTM


def bridge_of(name: str, layers: int) -> nn.Module:
    return decoder_of(
        "bahdanau",
        LSTM(),
        layers,
        bridge={"name": name},
        memory_size=SIZE,
        attention={"name": "none"},
    ).bridge


@pytest.mark.parametrize("layers", [1, 3])
def test_dense_bridge_follows_its_formula(
    layers: int, draw: Draw, stir: Stir, agree: Agree
) -> None:
    bridge, summary = stir(bridge_of("dense", layers)), draw(2, SIZE).requires_grad_()
    expected = [
        [
            [each.tanh() for each in times(weight, list(row), bias)]
            for weight, bias in zip(
                bridge.dense.weight.split(SIZE), bridge.dense.bias.split(SIZE), strict=True
            )
        ]
        for row in summary
    ]
    agree(
        [bridge(summary)],
        [torch.stack([stack(row) for row in expected])],
        [summary, *bridge.parameters()],
        1e-12,
    )


@pytest.mark.parametrize("layers", [1, 3])
def test_copy_and_zero_bridges(layers: int, draw: Draw) -> None:
    summary = draw(2, SIZE)
    copies, zeros = bridge_of("copy", layers)(summary), bridge_of("zero", layers)(summary)
    assert copies.shape == zeros.shape == (2, layers, SIZE)
    assert all(torch.equal(copies[:, depth], summary) for depth in range(layers))
    assert not zeros.any()
    assert zeros.dtype is torch.float64


@every_decoder
@pytest.mark.parametrize("name", ["dense", "copy"])
@pytest.mark.parametrize("half", [0, 1], ids=["forward", "backward"])
def test_bridge_keeps_both_directions(
    kind: str, name: str, half: int, draw: Draw, stir: Stir
) -> None:
    decoder = stir(decoder_of(kind, LSTM(), 2, bridge={"name": name}, size=MEMORY))
    mask = torch.ones(2, 3, dtype=torch.bool)
    states, summary, change = draw(2, 3, MEMORY), draw(2, MEMORY), torch.zeros(2, MEMORY).double()
    change.chunk(2, -1)[half].fill_(1)
    first, other = (
        decoder.start(Encoded(states, mask, each))[1].stack for each in (summary, summary + change)
    )
    # in every layer of every row
    assert ((first.hidden - other.hidden).abs().amax(-1) > 1e-3).all()
    assert not first.cell_state.any()
    assert not other.cell_state.any()


@pytest.mark.parametrize(
    ("bridge", "message"),
    [
        (
            {"name": "copy"},
            "copy: the encoder's summary has size 4, the decoder 3; make them equal",
        ),
        ({"name": "copi"}, "unknown bridge 'copi'; did you mean 'copy'?"),
        ({"name": "dense", "size": 3}, "dense: 'size' is set by the recipe's other parts"),
    ],
)
def test_invalid_bridge_is_one_clear_line(bridge: dict[str, Any], message: str) -> None:
    for kind in DECODERS:
        with pytest.raises(UserError) as raised:
            decoder_of(kind, LSTM(), bridge=bridge)
        assert message in str(raised.value)
        assert "\n" not in str(raised.value)
