"""Dropout of recurrent decoders and encoders."""

import pytest
import torch
from recurrent_by_hand import (
    EMBEDDING,
    MEMORY,
    SIZE,
    Agree,
    Draw,
    Stir,
    both_cells,
    by_hand,
    cell_by_hand,
    decoder_of,
    encoder_of,
    every_decoder,
    results,
)
from torch import Tensor, nn

from dialog.models.contracts import Encoded
from dialog.models.recurrent import LSTM
from dialog.models.recurrent import encoder as encoder_module
from dialog.models.recurrent.cells import RecurrentCell, shared_mask


@every_decoder
def test_decoder_drops_in_training_only(kind: str, source: Encoded, draw: Draw, stir: Stir) -> None:
    plain, inputs = stir(decoder_of(kind, LSTM(), 2)), draw(3, 4, EMBEDDING)
    expected, _ = plain(inputs, *plain.start(source))
    for variational in (False, True):
        decoder = stir(decoder_of(kind, LSTM(), 2, dropout=0.5, variational=variational))
        outputs, _ = decoder.eval()(inputs, *decoder.start(source))
        torch.testing.assert_close(outputs, expected, rtol=0, atol=0)
        torch.manual_seed(0)
        dropped, _ = decoder.train()(inputs, *decoder.start(source))
        assert (dropped - outputs).abs().max() > 0.1


@every_decoder
@both_cells
def test_variational_dropout_keeps_one_mask_for_all_steps(
    kind: str, cell: RecurrentCell, source: Encoded, draw: Draw, stir: Stir, agree: Agree
) -> None:
    decoder = stir(decoder_of(kind, cell, 3, dropout=0.4, variational=True)).train()
    decoder.dropout = nn.Identity()  # the dropout of the outputs differs at each step
    inputs = draw(3, 3, EMBEDDING).requires_grad_()
    torch.manual_seed(0)
    memory, first_state = decoder.start(source)
    assert [mask.shape for mask in first_state.stack.masks] == [(3, 3, SIZE)] * 2
    assert all((mask == 0).any() and (mask > 0).any() for mask in first_state.stack.masks)
    outputs, state = decoder(inputs, memory, first_state)
    expected, _ = by_hand(decoder, inputs, source, masks=first_state.stack.masks)
    leaves = [inputs, source.states, source.summary, *decoder.parameters()]
    agree(results(outputs, state), expected, leaves, atol=1e-12)
    state, parts = first_state, []
    for token in inputs.split(1, 1):
        output, state = decoder(token, memory, state)
        parts.append(output)
    torch.testing.assert_close(torch.cat(parts, 1), outputs, rtol=0, atol=1e-12)


@both_cells
def test_variational_dropout_keeps_states_bounded(cell: RecurrentCell) -> None:
    torch.manual_seed(0)
    encoder = encoder_of(cell, input_size=8, size=8, variational=True, dropout=0.4).double().train()
    encoded = encoder(torch.randn(3, 200, 8).double(), torch.ones(3, 200, dtype=torch.bool))
    assert encoded.states.abs().max() <= 1


@every_decoder
def test_variational_masks_are_independent(kind: str, stir: Stir, draw: Draw) -> None:
    decoder = decoder_of(kind, LSTM(), 2, dropout=0.4, variational=True).double().train()
    source = Encoded(
        draw(2000, 1, MEMORY), torch.ones(2000, 1, dtype=torch.bool), draw(2000, MEMORY)
    )
    torch.manual_seed(0)
    masks = [mask for _ in range(2) for mask in decoder.start(source)[1].stack.masks]
    for mask in masks:
        assert mask.unique().tolist() == pytest.approx([0, 1 / 0.6], rel=1e-4)
        assert mask.mean().item() == pytest.approx(1, abs=0.03)
        assert len(mask.flatten(1).unique(dim=0)) == 2**6  # every possible row
    for one, mask in enumerate(masks):
        for other in masks[:one]:
            together = ((mask > 0) == (other > 0)).double().mean().item()
            assert together == pytest.approx(0.6**2 + 0.4**2, abs=0.03)  # independent
    assert not decoder.eval().start(source)[1].stack.masks
    assert not decoder_of(kind, LSTM(), dropout=0.4).train().double().start(source)[1].stack.masks
    assert (
        not decoder_of(kind, LSTM(), variational=True).train().double().start(source)[1].stack.masks
    )


@both_cells
def test_variational_encoder_follows_its_formula(
    cell: RecurrentCell, draw: Draw, stir: Stir, agree: Agree, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = stir(encoder_of(cell, input_size=3, size=4, layers=2, variational=True, dropout=0.4))
    drawn: list[Tensor] = []

    def watched(like: Tensor, dropout: float) -> Tensor:
        drawn.append(shared_mask(like, dropout))
        return drawn[-1]

    monkeypatch.setattr(encoder_module, "shared_mask", watched)
    lengths = [4, 2, 1]
    inputs, mask = (
        draw(3, 4, 3).requires_grad_(),
        torch.arange(4) < torch.tensor(lengths).unsqueeze(1),
    )
    torch.manual_seed(0)
    encoded = encoder.train()(inputs, mask)
    recurrent = {(0, 0): drawn[0], (0, 1): drawn[1], (1, 0): drawn[3], (1, 1): drawn[4]}
    assert [each.shape for each in drawn] == [(3, 2), (3, 2), (3, 1, 4), (3, 2), (3, 2)]
    ours, theirs = [], []
    for row, length in enumerate(lengths):
        states = list(inputs[row, :length])
        for depth in range(2):
            states = [state * drawn[2][row, 0] for state in states] if depth else states
            read = []
            for direction, stacks in enumerate((encoder.forward_layers, encoder.backward_layers)):
                hidden = [torch.zeros((), dtype=torch.float64)] * 2
                memory, outputs = hidden, []
                for state in states[::-1] if direction else states:
                    kept = list(recurrent[depth, direction][row])
                    hidden, memory = cell_by_hand(stacks[depth], list(state), hidden, memory, kept)
                    outputs.append(torch.stack(hidden))
                read.append(outputs[::-1] if direction else outputs)
            states = [torch.cat(pair) for pair in zip(*read, strict=True)]
        ours += [encoded.states[row, :length], encoded.summary[row]]
        theirs += [torch.stack(states), torch.cat([states[-1][:2], states[0][2:]])]
    agree(ours, theirs, [inputs, *encoder.parameters()], atol=1e-12)

    drawn.clear()
    plain = stir(encoder_of(cell, input_size=3, size=4, layers=2))
    torch.testing.assert_close(
        encoder.eval()(inputs, mask).states, plain(inputs, mask).states, rtol=0, atol=1e-12
    )
    assert not drawn
