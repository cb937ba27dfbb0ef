"""Recurrent networks in mixed precision."""

import pytest
import torch
from recurrent_by_hand import (
    EMBEDDING,
    MEMORY,
    Draw,
    Stir,
    both_cells,
    decoder_of,
    encoder_of,
    every_decoder,
)
from torch import Tensor

from dialog.models.contracts import Encoded
from dialog.models.recurrent import BRIDGES
from dialog.models.recurrent.cells import RecurrentCell


@every_decoder
@both_cells
@pytest.mark.parametrize("layers", [1, 2])
def test_autocast_trains_near_float32(
    kind: str, cell: RecurrentCell, layers: int, draw: Draw, stir: Stir
) -> None:
    encoder = stir(encoder_of(cell, input_size=EMBEDDING, size=MEMORY, layers=layers)).float()
    decoder = stir(decoder_of(kind, cell, layers)).float()
    weights = [*encoder.parameters(), *decoder.parameters()]
    source, target = draw(3, 5, EMBEDDING).float(), draw(3, 6, EMBEDDING).float()
    mask = torch.arange(5) < torch.tensor([[5], [2], [1]])

    def trained() -> tuple[Tensor, Tensor, Tensor]:
        outputs, state = decoder(target, *decoder.start(encoder(source, mask)))
        gradients = torch.autograd.grad(outputs.float().square().sum(), weights)
        return (
            outputs,
            state.stack.hidden,
            torch.cat([gradient.flatten() for gradient in gradients]),
        )

    expected = trained()
    with torch.autocast("cpu", torch.bfloat16):
        mixed = trained()
    assert mixed[0].dtype is torch.bfloat16
    for one, other in zip(mixed, expected, strict=True):
        assert one.isfinite().all()
        assert (one.float() - other).norm() < 0.03 * other.norm()


@both_cells
def test_encoder_runs_in_float32_under_autocast(
    cell: RecurrentCell, draw: Draw, stir: Stir
) -> None:
    encoder = stir(encoder_of(cell, input_size=EMBEDDING, size=MEMORY, layers=2)).float()
    inputs, mask = draw(2, 5, EMBEDDING).float(), torch.ones(2, 5, dtype=torch.bool)
    with torch.autocast("cpu", torch.bfloat16):
        encoded = encoder(inputs, mask)
        half = encoder(inputs.bfloat16(), mask)
    assert torch.equal(encoded.states, encoder(inputs, mask).states)
    assert half.states.dtype is torch.float32
    torch.testing.assert_close(half.states, encoded.states, rtol=0, atol=0.02)


@every_decoder
@both_cells
@pytest.mark.parametrize("bridge", BRIDGES)
@pytest.mark.parametrize("half", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("variational", [False, True])
def test_accumulated_states_stay_float32(
    kind: str,
    cell: RecurrentCell,
    bridge: str,
    half: bool,
    variational: bool,
    source: Encoded,
    draw: Draw,
    stir: Stir,
) -> None:
    changes = {
        "bridge": {"name": bridge},
        "size": MEMORY,
        "dropout": 0.1,
        "variational": variational,
    }
    decoder = stir(decoder_of(kind, cell, 2, **changes)).float().train()
    dtype = torch.bfloat16 if half else torch.float32
    final = draw(3, 2, MEMORY).to(dtype), draw(3, 2, MEMORY if cell.name == "lstm" else 0).to(dtype)
    source = Encoded(source.states.to(dtype), source.mask, source.summary.to(dtype), final)
    inputs = draw(3, 8, EMBEDDING).float()
    with torch.autocast("cpu", torch.bfloat16):
        memory, state = decoder.start(source)
        for step in inputs.split(1, 1):
            outputs, state = decoder(step, memory, state)
            carried = state.stack.cell_state if cell.name == "lstm" else state.stack.hidden
            assert carried.dtype is torch.float32
            assert outputs.isfinite().all()
