"""Layers in operators that ONNX has, for the export only.

Shapes: B rows, T steps, I input width, D hidden size, G gates of a cell.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.export.formats.onnx.recurrences import (
    OnnxShortConvolution,
    OnnxSLSTM,
    ScannedRecurrence,
)
from dialog.models.positions import LearnedPositions, steps_from
from dialog.models.recurrence.kernels.recurrence import Recurrence
from dialog.models.recurrence.mixers.local import ShortConvolution
from dialog.models.recurrence.mixers.slstm import SLSTM
from dialog.models.recurrent import GRU, LSTM
from dialog.models.recurrent.cells import LAYER_WEIGHTS, RecurrentCell
from dialog.models.seq2seq import Seq2Seq


class OnnxLSTM(LSTM):
    """ONNX's operator LSTM, for any number of steps; its gates are input, output, forget, cell."""

    def fused(
        self, layer: nn.RNNBase, inputs: Tensor, hidden: Tensor, cell_state: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run a sequence [B, T, I] from a state."""
        outputs, last, cell = _recurrent(
            "LSTM", layer, (0, 3, 1, 2), inputs, (None, hidden, cell_state)
        )
        return outputs, last, cell

    def final(
        self, layer: nn.RNNBase, inputs: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run right-padded rows from zeros; the operator stops each row at its length."""
        zeros = inputs.new_zeros(inputs.shape[0], layer.hidden_size)
        lengths = mask.sum(1).to(torch.int32)  # [B]
        outputs, last, cell = _recurrent(
            "LSTM", layer, (0, 3, 1, 2), inputs, (lengths, zeros, zeros)
        )
        return outputs, last, cell


class OnnxGRU(GRU):
    """ONNX's operator GRU, for any number of steps; its gates are update, reset, new."""

    def fused(
        self, layer: nn.RNNBase, inputs: Tensor, hidden: Tensor, cell_state: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run a sequence [B, T, I] from a state; ``linear_before_reset`` is torch's form."""
        outputs, last = _recurrent(
            "GRU", layer, (1, 0, 2), inputs, (None, hidden), linear_before_reset=1
        )
        return outputs, last, cell_state


class OnnxLearnedPositions(LearnedPositions):
    """Learned positions whose rows are gathered, so that the engine rejects a sequence longer than
    the table.
    """

    def forward(self, inputs: Tensor, offset: int | Tensor = 0) -> Tensor:
        """Add positions to inputs [B, T, D]."""
        # [T] or [B, T]; of a single range, ONNX Runtime would take a slice
        places = steps_from(offset, inputs.shape[1], inputs.device)
        return inputs + F.embedding(places, self.table.weight)


CELLS: dict[str, RecurrentCell] = {LSTM.name: OnnxLSTM(), GRU.name: OnnxGRU()}
CLASSES: dict[type[nn.Module], type[nn.Module]] = {
    LearnedPositions: OnnxLearnedPositions,
    ShortConvolution: OnnxShortConvolution,
    SLSTM: OnnxSLSTM,
}
"""Classes of layers, and of those with the same weights for the export."""


def in_onnx_operators(model: Seq2Seq) -> Seq2Seq:
    """Return a copy of a network, of which each layer consists of operators that ONNX has."""
    copied = deepcopy(model).eval().requires_grad_(False)
    # if one module is shared, torch.export wraps all
    copied.source_embedding = deepcopy(copied.source_embedding)
    replace_layers(copied)
    return copied


def replace_layers(module: nn.Module) -> None:
    """Replace the layers of a module by those for the export, with the same weights."""
    for part in module.modules():
        if isinstance(cell := getattr(part, "cell", None), RecurrentCell):
            part.cell = CELLS[cell.name]  # type: ignore[assignment]  # not a parameter
        if isinstance(recurrence := getattr(part, "recurrence", None), Recurrence):
            part.recurrence = ScannedRecurrence(recurrence)  # type: ignore[assignment]
        part.__class__ = CLASSES.get(type(part), type(part))


@contextmanager
def traced_lengths() -> Iterator[None]:
    """Trace ``len(tensor)`` in `dialog.models` as its first size; torch.export makes it the
    example's number.
    """

    def length(sized: Sequence[object] | Tensor) -> int:
        return sized.shape[0] if isinstance(sized, Tensor) else len(sized)

    modules = [
        module for name, module in [*sys.modules.items()] if name.startswith("dialog.models.")
    ]
    for module in modules:
        vars(module)["len"] = length
    try:
        yield
    finally:
        for module in modules:
            del vars(module)["len"]


def _recurrent(
    operator: str,
    layer: nn.RNNBase,
    gates: tuple[int, ...],
    inputs: Tensor,
    rest: tuple[Tensor | None, ...],
    **attributes: int,
) -> list[Tensor]:
    """Return outputs [B, T, D] and the last states [B, D] of ONNX's operator for inputs [B, T, I].

    ``gates`` has the number of torch's gate for each of ONNX's; ``rest`` the lengths [B] or None,
    and the first states [B, D]. The operator has a dimension for its directions, here one.
    """
    rows, steps, _ = inputs.shape
    entering, own, entering_bias, own_bias = (
        _ordered(layer.get_parameter(name), gates) for name in LAYER_WEIGHTS
    )
    lengths, *first = rest
    outputs, *last = torch.onnx.ops.symbolic_multi_out(
        operator,
        (
            inputs.transpose(0, 1),  # [T, B, I]
            entering.unsqueeze(0),  # [1, G D, I]
            own.unsqueeze(0),  # [1, G D, D]
            torch.cat([entering_bias, own_bias]).unsqueeze(0),  # [1, 2 G D]
            lengths,
            *(None if state is None else state.unsqueeze(0) for state in first),  # [1, B, D]
        ),
        {"hidden_size": layer.hidden_size, **attributes},
        dtypes=[inputs.dtype] * len(rest),
        shapes=[(steps, 1, rows, layer.hidden_size), *[(1, rows, layer.hidden_size)] * len(first)],
    )
    # [B, T, D], [B, D]
    return [outputs.squeeze(1).transpose(0, 1), *(state.squeeze(0) for state in last)]


def _ordered(blocks: Tensor, gates: tuple[int, ...]) -> Tensor:
    """Arrange the blocks of a weight [G D, ..] or a bias [G D] in ONNX's order."""
    parts = blocks.chunk(len(gates))
    return torch.cat([parts[gate] for gate in gates])
