"""One recurrent layer over a whole sequence.

Shapes: B rows, S source tokens, T steps, I input width, D hidden width, C cell state width.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.models.recurrent.cells import RecurrentCell
from dialog.models.recurrent.recurrent_loop import recurrent_loop

SMALLEST = 256
"""Hidden width from which the loop in half precision trains faster than the fused kernel in
float32.
"""


def run_layer(
    cell: RecurrentCell,
    layer: Any,
    inputs: Tensor,
    hidden: Tensor,
    cell_state: Tensor,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run a layer over inputs [B, T, I]: outputs [B, T, D], and the last hidden [B, D] and cell
    state [B, C].

    A dropout ``mask`` [B, D] multiplies the hidden state in each step's product; then a loop of
    :meth:`RecurrentCell.step` replaces the fused kernel.

    Under autocast on a CPU the states keep the precision of the weights, since the fused kernel
    would round the cell state: wide layers train in :func:`recurrent_loop`, whose products are in
    half precision, all others in float32.
    """
    if not torch.is_autocast_enabled("cpu"):
        return _run_layer(cell, layer, inputs, hidden, cell_state, mask)
    low = torch.get_autocast_dtype("cpu")
    own = layer.weight_ih_l0.dtype
    hidden = hidden.to(own)
    cell_state = cell_state.to(own)
    with torch.autocast("cpu", enabled=False):
        if torch.is_grad_enabled() and layer.hidden_size >= SMALLEST:
            return recurrent_loop(cell, layer, inputs.to(low), hidden, cell_state, mask)
        return _run_layer(cell, layer, inputs.to(own), hidden, cell_state, mask)


def _run_layer(
    cell: RecurrentCell,
    layer: Any,
    inputs: Tensor,
    hidden: Tensor,
    cell_state: Tensor,
    mask: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    if mask is None:
        return cell.fused(layer, inputs, hidden, cell_state)
    entering = F.linear(
        inputs, cell.from_inputs(layer.weight_ih_l0), cell.from_inputs(layer.bias_ih_l0)
    )
    weight = cell.from_hidden(layer.weight_hh_l0)
    bias = cell.from_hidden(layer.bias_hh_l0)
    outputs = []
    for gates in entering.unbind(1):  # [B, 4 D]
        hidden, cell_state = cell.step(
            gates + F.linear(hidden * mask, weight, bias), hidden, cell_state
        )
        outputs.append(hidden)
    return torch.stack(outputs, 1), hidden, cell_state


def run_to_ends(
    cell: RecurrentCell, layer: nn.RNNBase, inputs: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Run a layer from zeros over right-padded inputs [B, S, I], mask [B, S], as
    `RecurrentCell.final`.

    Autocast is disabled on a CPU: its fused kernels would round the cell state to half precision.
    """
    if torch.is_autocast_enabled("cpu"):
        with torch.autocast("cpu", enabled=False):
            return cell.final(layer, inputs.to(layer.get_parameter("weight_ih_l0").dtype), mask)
    return cell.final(layer, inputs, mask)
