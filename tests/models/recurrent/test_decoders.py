"""Recurrent decoders against loops over single numbers, in float64."""

from typing import Any
from unittest import mock

import pytest
import torch
from recurrent_by_hand import (
    ADDITIVE,
    DECODERS,
    EMBEDDING,
    Agree,
    Draw,
    Stir,
    both_cells,
    by_hand,
    decoder_of,
    every_decoder,
    results,
    up_to_three_layers,
)
from torch import Tensor, nn

from dialog.models.contracts import Encoded, Only
from dialog.models.recurrent import LSTM
from dialog.models.recurrent.cells import RecurrentCell


@every_decoder
@both_cells
@up_to_three_layers
def test_decoder_follows_the_equations_of_its_docstring(
    kind: str,
    cell: RecurrentCell,
    layers: int,
    source: Encoded,
    draw: Draw,
    stir: Stir,
    agree: Agree,
) -> None:
    decoder = stir(decoder_of(kind, cell, layers))
    inputs = draw(3, 3, EMBEDDING).requires_grad_()
    shown: list[tuple[nn.Module, Tensor]] = []
    outputs, state = decoder(
        inputs, *decoder.start(source), lambda module, weights: shown.append((module, weights))
    )
    ((module, seen),) = shown
    assert module is decoder.attention
    assert seen.shape == (3, 1, 3, 4)
    expected, weights = by_hand(decoder, inputs, source)
    leaves = [inputs, source.states, source.summary, *decoder.parameters()]
    ours = [seen[row, 0, :, : weights[row].shape[1]] for row in range(3)]
    agree([*results(outputs, state), *ours], [*expected, *weights], leaves, atol=1e-12)
    assert not seen.masked_fill(source.mask[:, None, None], 0).any()
    unseen, _ = decoder(inputs, *decoder.start(source))
    torch.testing.assert_close(unseen, outputs, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "mistake"),
    [
        *((kind, "queries with the other state") for kind in DECODERS),
        *((kind, "begins with the cell") for kind in DECODERS),
        ("luong", "feeds the state"),
    ],
)
def test_reference_detects_a_mistake(
    kind: str, mistake: str, source: Encoded, draw: Draw, stir: Stir
) -> None:
    decoder, inputs = stir(decoder_of(kind, LSTM())), draw(3, 3, EMBEDDING)
    outputs, _ = decoder(inputs, *decoder.start(source))
    (wrong, *_), _ = by_hand(decoder, inputs, source, mistake=mistake)
    assert (outputs - wrong).abs().max() > 1e-3


@every_decoder
@both_cells
@pytest.mark.parametrize("attention", [ADDITIVE, {"name": "none"}, {"name": "location", "size": 2}])
def test_whole_target_equals_token_by_token(
    kind: str,
    cell: RecurrentCell,
    attention: dict[str, Any],
    source: Encoded,
    draw: Draw,
    stir: Stir,
) -> None:
    decoder, inputs = stir(decoder_of(kind, cell, 2, attention=attention)), draw(3, 4, EMBEDDING)
    memory, first_state = decoder.start(source)
    whole: list[Tensor] = []
    outputs, end = decoder(inputs, memory, first_state, lambda _, weights: whole.append(weights))
    for sizes in ([1] * 4, [1, 3], [2, 2], [3, 1]):
        state, parts, shown = first_state, [], []
        for part in inputs.split(sizes, 1):
            output, state = decoder(
                part, memory, state, lambda _, weights, seen=shown: seen.append(weights)
            )
            parts.append(output)
        torch.testing.assert_close(
            results(torch.cat(parts, 1), state), results(outputs, end), rtol=0, atol=1e-12
        )
        assert (
            bool(shown)
            == bool(whole)
            == (attention["name"] != "none")
            == (decoder.pointer is not None)
        )
        if whole:
            torch.testing.assert_close(torch.cat(shown, 2), whole[0], rtol=0, atol=1e-12)


@every_decoder
def test_a_hook_for_another_module_is_not_called(
    kind: str, source: Encoded, draw: Draw, stir: Stir
) -> None:
    decoder, shown = stir(decoder_of(kind, LSTM())), []
    memory, state = decoder.start(source)
    for module in (decoder.stack, decoder.attention):
        decoder(
            draw(3, 2, EMBEDDING), memory, state, Only(module, lambda *call: shown.append(call))
        )
    ((module, weights),) = shown
    assert module is decoder.attention
    assert weights.shape == (3, 1, 2, 4)


@every_decoder
@both_cells
@pytest.mark.parametrize("layers", [1, 2])
@torch.no_grad()
def test_keys_are_projected_once_per_source(
    kind: str, cell: RecurrentCell, layers: int, source: Encoded, draw: Draw, stir: Stir
) -> None:
    decoder, steps = stir(decoder_of(kind, cell, layers)), 5
    projections, reads, fused = [], [], []
    decoder.attention.scorer.key.register_forward_hook(lambda *_: projections.append(1))
    decoder.attention.register_forward_hook(lambda *_: reads.append(1))
    for layer in decoder.stack.layers:
        layer.register_forward_hook(lambda *_: fused.append(1))
    memory, state = decoder.start(source)
    readable = mock.Mock()  # without a hook Bahdanau's loop is a kernel, see test_additive_loop.py
    _, state = decoder(draw(3, steps, EMBEDDING), memory, state, readable)
    assert (len(reads), len(fused)) == (
        (1, layers) if kind == "luong without feeding" else (steps, 0)
    )
    decoder(draw(3, 1, EMBEDDING), memory, state)
    assert len(projections) == 1
