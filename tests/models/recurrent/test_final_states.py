"""Decoders that start from the encoder's last states, against torch's packed LSTM."""

from __future__ import annotations

import pytest
import torch
from recurrent_by_hand import EMBEDDING, MEMORY, Draw, Stir
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from dialog.models.contracts import Encoded, FinalStates
from dialog.models.recurrent import LSTM, PlainDecoder, RecurrentEncoder, RecurrentSettings
from dialog.models.seq2seq import Seq2Seq

LENGTHS = torch.tensor([5, 2, 1, 4])
MASK = torch.arange(5) < LENGTHS.unsqueeze(1)
LSTM_OF_2 = {"name": "lstm", "size": 8, "layers": 2}


@pytest.mark.parametrize("bidirectional", [False, True])
def test_final_states_are_those_of_packed_sequences(
    bidirectional: bool, draw: Draw, stir: Stir
) -> None:
    settings = RecurrentSettings(input_size=EMBEDDING, size=MEMORY, layers=2)
    encoder = stir(RecurrentEncoder(LSTM(), settings, bidirectional=bidirectional))
    width = MEMORY // (1 + bidirectional)
    reference = nn.LSTM(EMBEDDING, width, 2, batch_first=True, bidirectional=bidirectional).double()
    for suffix, layers in (("", encoder.forward_layers), ("_reverse", encoder.backward_layers)):
        for depth, layer in enumerate(layers):
            for name, parameter in layer.named_parameters():
                getattr(reference, f"{name[:-1]}{depth}{suffix}").data = parameter.data
    inputs = draw(4, 5, EMBEDDING).requires_grad_()
    outputs, ends = reference(
        pack_padded_sequence(inputs, LENGTHS, batch_first=True, enforce_sorted=False)
    )
    outputs, _ = pad_packed_sequence(outputs, batch_first=True)
    # [B, L, M]
    expected = [state.unflatten(0, (2, -1)).permute(2, 0, 1, 3).flatten(2) for state in ends]
    plain = encoder(inputs, MASK)
    encoder.keep_final(FinalStates("lstm", 2))
    encoded = encoder(inputs, MASK)
    for one, other in zip((encoded.states, *encoded.final), (outputs, *expected), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-14)
        gradients = (
            torch.autograd.grad(value.square().sum(), inputs, retain_graph=True)[0]
            for value in (one, other)
        )
        torch.testing.assert_close(*gradients, rtol=0, atol=1e-13)
    torch.testing.assert_close(plain.states, encoded.states, rtol=0, atol=1e-14)
    assert plain.final == ()


def test_plain_decoder_is_torchs_lstm(draw: Draw, stir: Stir) -> None:
    decoder = stir(PlainDecoder(LSTM(), RecurrentSettings(input_size=4, size=4), memory_size=4))
    hidden, cell, inputs = draw(3, 1, 4), draw(3, 1, 4), draw(3, 6, 4)
    encoded = Encoded(draw(3, 2, 4), torch.ones(3, 2).bool(), draw(3, 4), (hidden, cell))
    outputs, state = decoder(inputs, *decoder.start(encoded))
    expected, (last, _) = decoder.stack.layers[0](
        inputs, (hidden.transpose(0, 1), cell.transpose(0, 1))
    )
    assert torch.equal(outputs, expected)
    assert torch.equal(state.hidden, last.transpose(0, 1))


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (
            {"name": "lstm", "size": 8},
            "encoder.layers is 1, that of the decoder 2; make them equal",
        ),
        (
            {**LSTM_OF_2, "name": "gru"},
            "encoder.name is gru, that of the decoder lstm; make them equal",
        ),
        (
            {"name": "transformer", "layers": 1, "heads": 1, "feed_forward_size": 8},
            "use a recurrent encoder",
        ),
        ({**LSTM_OF_2, "variational": True}, "variational: unsupported"),
    ],
)
def test_an_encoder_without_fitting_states_is_an_error(
    encoder: dict[str, object], message: str
) -> None:
    decoder = {**LSTM_OF_2, "name": "lstm_plain"}
    with pytest.raises(ValueError, match=message):
        Seq2Seq(9, padding=0, embedding_size=8, encoder=encoder, decoder=decoder, dropout=0.1)
