"""Recurrent encoders against torch's, in float64."""

import pytest
import torch
import torch.nn.functional as F
from recurrent_by_hand import FUSED, Agree, Draw, Stir, both_cells, encoder_of, up_to_three_layers
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from dialog.models.recurrent import GRU, LSTM, RecurrentEncoder
from dialog.models.recurrent.cells import RecurrentCell


def in_torchs_names(ours: RecurrentEncoder) -> dict[str, Tensor]:
    return {
        name.replace("_l0", f"_l{depth}") + suffix: parameter
        for suffix, stack in (("", ours.forward_layers), ("_reverse", ours.backward_layers))
        for depth, layer in enumerate(stack)
        for name, parameter in layer.named_parameters()
    }


@both_cells
@up_to_three_layers
@pytest.mark.parametrize("bidirectional", [True, False], ids=["bidirectional", "forward"])
def test_encoder_agrees_with_torch_on_packed_sequences(
    cell: RecurrentCell, layers: int, bidirectional: bool, draw: Draw, stir: Stir, agree: Agree
) -> None:
    size, total = 6, 7
    ours = stir(
        encoder_of(cell, input_size=5, size=size, layers=layers, bidirectional=bidirectional)
    )
    width = size // 2 if bidirectional else size
    theirs = FUSED[cell.name](
        5, width, layers, bidirectional=bidirectional, batch_first=True
    ).double()
    named = in_torchs_names(ours)
    assert named.keys() == dict(theirs.named_parameters()).keys()
    lengths = torch.tensor([3, 5, 1, 4])  # none as long as the batch, not sorted
    mask = torch.arange(total) < lengths.unsqueeze(1)
    inputs = draw(4, total, 5).requires_grad_()  # not 0 at padding

    encoded = ours(inputs, mask)
    packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
    read, ends = torch.func.functional_call(theirs, named, (packed,))
    ends = ends[0] if cell.name == "lstm" else ends
    states, _ = pad_packed_sequence(read, batch_first=True, total_length=total)
    summary = torch.cat([ends[-2], ends[-1]], -1) if bidirectional else ends[-1]

    assert encoded.states.shape == (4, total, size)
    assert torch.equal(encoded.mask, mask)
    agree([encoded.states, encoded.summary], [states, summary], [inputs, *ours.parameters()])


@both_cells
def test_padding_reaches_neither_direction(cell: RecurrentCell, draw: Draw, stir: Stir) -> None:
    encoder, inputs = stir(encoder_of(cell, input_size=3, size=4, layers=2)), draw(4, 5, 3)
    lengths = [5, 3, 1, 0]
    mask = torch.arange(5) < torch.tensor(lengths).unsqueeze(1)
    encoded = encoder(inputs, mask)
    garbage = torch.where(mask.unsqueeze(-1), inputs, 50 * draw(4, 5, 3))
    wider = torch.cat([garbage, 50 * draw(4, 2, 3)], 1)
    for padded in (garbage, wider):
        output = encoder(padded, F.pad(mask, (0, padded.shape[1] - 5)))
        torch.testing.assert_close(output.states[:, :5], encoded.states, rtol=0, atol=1e-12)
        torch.testing.assert_close(output.summary, encoded.summary, rtol=0, atol=1e-12)
        assert not output.states[:, 5:].any()
    for row, length in enumerate(lengths[:3]):
        alone = encoder(inputs[row : row + 1, :length], torch.ones(1, length, dtype=torch.bool))
        torch.testing.assert_close(
            alone.states[0], encoded.states[row, :length], rtol=0, atol=1e-12
        )
        torch.testing.assert_close(alone.summary[0], encoded.summary[row], rtol=0, atol=1e-12)
        assert not encoded.states[row, length:].any()
    assert not encoded.states[3].any()
    assert not encoded.summary[3].any()


@both_cells
def test_padding_test_detects_a_backward_start_in_padding(
    cell: RecurrentCell, draw: Draw, stir: Stir
) -> None:
    encoder, inputs = stir(encoder_of(cell, input_size=3, size=4)), draw(1, 5, 3)
    mask = (torch.arange(5) < 3).unsqueeze(0)
    both = FUSED[cell.name](3, 2, bidirectional=True, batch_first=True).double()
    unpacked, _ = torch.func.functional_call(both, in_torchs_names(encoder), (inputs,))
    states = encoder(inputs, mask).states
    torch.testing.assert_close(unpacked[:, :3, :2], states[:, :3, :2], rtol=0, atol=1e-12)
    assert (unpacked[:, :3, 2:] - states[:, :3, 2:]).abs().max() > 1e-3


def test_bidirectional_encoder_needs_an_even_size() -> None:
    with pytest.raises(ValueError, match="size of a bidirectional encoder must be even, not 5"):
        encoder_of(LSTM(), input_size=4, size=5)
    assert encoder_of(LSTM(), input_size=4, size=5, bidirectional=False).size == 5


def test_forget_gates_start_open() -> None:
    for cell, biases in ((LSTM(), [0.0, 1.0, 0.0, 0.0]), (GRU(), [0.0, 0.0, 0.0])):
        layer = cell.layer(3, 4)
        both = layer.bias_ih_l0 + layer.bias_hh_l0
        assert [gate.unique().tolist() for gate in both.chunk(len(biases))] == [
            [each] for each in biases
        ]
        for gate in layer.weight_hh_l0.chunk(len(biases)):
            torch.testing.assert_close(gate @ gate.T, torch.eye(4))
