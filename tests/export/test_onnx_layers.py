"""Layers in the operators of ONNX, each exported alone, and without an export."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from dialog.config.components import build
from dialog.export.formats.onnx.engine import session
from dialog.export.formats.onnx.layers import replace_layers
from dialog.export.formats.onnx.writing import STEP, quiet_exporter, translated
from dialog.models.positions import LearnedPositions
from dialog.models.recurrence.mixers import MIXERS
from dialog.models.recurrence.mixers.mixer import START
from dialog.models.recurrent import LSTM
from dialog.models.recurrent.cells import RecurrentCell
from dialog.models.state import tensors_of


class Positions(nn.Module):
    def __init__(self, table: LearnedPositions) -> None:
        super().__init__()
        self.table = table

    def forward(self, inputs: Tensor, past: Tensor) -> Tensor:
        return self.table(inputs, past.shape[0])


def test_position_beyond_a_learned_table_is_an_error(tmp_path: Path) -> None:
    table = LearnedPositions(4, length=8).requires_grad_(False)
    example = {"inputs": (torch.ones(1, 3, 4), 1), "past": (torch.ones(5), 0)}
    run = engine_of(Positions(deepcopy(table)), example, tmp_path)
    inputs = torch.randn(1, 2, 4)
    assert np.allclose(run(inputs, torch.ones(6)), table(inputs, 6).numpy())
    with pytest.raises(Exception, match="out of data bounds"):
        run(inputs, torch.ones(7))  # one of its rows exists, and would be added to both


class Ends(nn.Module):
    """An LSTM whose rows end at their last real token."""

    def __init__(self, layer: nn.Module, cell: RecurrentCell) -> None:
        super().__init__()
        self.layer = layer
        self.cell = cell

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        outputs, last, cell_state = self.cell.final(self.layer, inputs, mask)
        return torch.cat(
            [outputs * mask.unsqueeze(-1), last.unsqueeze(1), cell_state.unsqueeze(1)], 1
        )


def test_lstm_ends_at_the_last_real_token(tmp_path: Path) -> None:
    ends = Ends(nn.LSTM(4, 3, batch_first=True), LSTM()).requires_grad_(False)
    example = {"inputs": (torch.ones(2, 5, 4), 1), "mask": (torch.ones(2, 5, dtype=torch.bool), 1)}
    run = engine_of(deepcopy(ends), example, tmp_path)
    inputs, mask = torch.randn(2, 7, 4), torch.arange(7) < torch.tensor([[3], [7]])
    assert np.allclose(run(inputs, mask), ends(inputs, mask).numpy(), atol=1e-6)


@pytest.mark.parametrize("name", MIXERS)
def test_scan_of_a_mixer_is_the_mixer(name: str) -> None:
    """Outputs at real tokens, and the state, for rows of other lengths and from another state."""
    mixer = build(MIXERS, {"name": name}, size=8, width=8, heads=2).requires_grad_(False)
    scanning = deepcopy(mixer)
    replace_layers(scanning)
    inputs = torch.randn(3, 9, 8)
    for length, state in ((4, START), (9, mixer(inputs)[1])):
        mask = torch.arange(9) < torch.tensor([[length], [9], [1]])
        outputs, after = mixer(inputs, state, mask)
        scanned, after_scan = scanning(inputs, state, mask)
        assert torch.allclose(scanned[mask], outputs[mask], atol=1e-5)
        for one, other in zip(tensors_of(after), tensors_of(after_scan), strict=True):
            assert torch.allclose(one, other, atol=1e-5)


class Mixed(nn.Module):
    """The outputs of a mixer at real tokens."""

    def __init__(self, mixer: nn.Module) -> None:
        super().__init__()
        self.mixer = mixer

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        return self.mixer(inputs, START, mask)[0] * mask.unsqueeze(-1)


def test_mixer_of_any_length(tmp_path: Path) -> None:
    """The scan has a weight that is the same for all tokens, a window, and a mask."""
    mixed = Mixed(build(MIXERS, {"name": "slstm"}, size=8, width=8, heads=2)).requires_grad_(False)
    with torch.no_grad():
        mixed.mixer.recurrent += 0.3 * torch.randn_like(mixed.mixer.recurrent)
    example = {"inputs": (torch.ones(2, 5, 8), 1), "mask": (torch.ones(2, 5, dtype=torch.bool), 1)}
    run = engine_of(deepcopy(mixed), example, tmp_path)
    for length in (1, 7):
        inputs = torch.randn(2, length, 8)
        mask = torch.arange(length) < torch.tensor([[1], [length]])
        assert np.allclose(run(inputs, mask), mixed(inputs, mask).numpy(), atol=1e-6)


def engine_of(
    network: nn.Module, example: dict[str, tuple[Tensor, int]], folder: Path
) -> Callable[..., npt.NDArray[np.float32]]:
    """Export a module whose inputs, by name, have one free dimension; return the engine as a
    function.
    """
    replace_layers(network)
    shapes = tuple(
        {place: "length" if name != "past" else "past"} for name, (_, place) in example.items()
    )
    arguments = tuple(tensor for tensor, _ in example.values())
    with torch.no_grad(), quiet_exporter():
        translated(network.eval(), arguments, shapes, inputs=[*example], outputs=["outputs"]).save(
            folder / STEP
        )
    opened = session(folder / STEP)
    return lambda *tensors: opened.run(
        None, dict(zip(example, (one.numpy() for one in tensors), strict=True))
    )[0]
