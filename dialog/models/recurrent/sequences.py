"""One recurrent layer over a whole sequence; `recurrent_loop` has half-precision products and its
own gradient.

Its formula is the loop that `run_layer` runs with a dropout mask. States are in the precision of
``hidden``, products in that of ``inputs``. The gradient of the weight is one product over all
steps. Second derivatives are not supported.

Gain: under bfloat16, a training step of configs/model/lstm_bahdanau takes 0.89 of the time and 0.92
of the memory of the fused kernel in float32 on 64 rows of 48 source tokens, 0.91 and 0.82 on 32
rows of 96 (benchmarks/kernels.py; Intel Xeon with AMX, one thread, torch 2.13). A layer of width
128 alone takes 1.4 times as long, so narrow ones are fused.

Test: ``test_kernel_is_the_readable_loop`` in tests/models/recurrent/test_recurrent_loop.py.

Shapes: B rows, S source tokens, T steps, I input width, D hidden width, C cell state width.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from dialog.models.kernels.autocast import autocast_type, without_autocast
from dialog.models.recurrent.cells import RecurrentCell

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

    Under autocast the states keep the precision of the weights, since the fused kernels would round
    the cell state. In training, :func:`recurrent_loop`, whose products are in half precision, runs
    wide layers on a CPU, and elsewhere those with a mask; the rest is in float32. A GPU multiplies
    that in TensorFloat-32 by its fused kernel, unless ``torch.backends.cudnn`` forbids it.
    """
    low = autocast_type(inputs)
    if low is None:
        return _run_layer(cell, layer, inputs, hidden, cell_state, mask)
    own = layer.weight_ih_l0.dtype
    hidden = hidden.to(own)
    cell_state = cell_state.to(own)
    on_cpu = inputs.device.type == "cpu"
    loops = layer.hidden_size >= SMALLEST if on_cpu else mask is not None
    with without_autocast(inputs):
        if torch.is_grad_enabled() and loops:
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

    Autocast is disabled: fused kernels would round the cell state to half precision.
    """
    if autocast_type(inputs) is None:
        return cell.final(layer, inputs, mask)
    with without_autocast(inputs):
        return cell.final(layer, inputs.to(layer.get_parameter("weight_ih_l0").dtype), mask)


def recurrent_loop(
    cell: RecurrentCell,
    layer: Any,
    inputs: Tensor,
    hidden: Tensor,
    cell_state: Tensor,
    mask: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run a layer over inputs [B, T, I]: outputs [B, T, D], and the last hidden [B, D] and cell
    state [B, C].

    Products are in the precision of the inputs. ``mask`` [B, D] multiplies the hidden state in each
    step's product.
    """
    bias = cell.from_inputs(layer.bias_ih_l0) + cell.from_hidden(layer.bias_hh_l0)  # [4 D]
    weights = (cell.from_inputs(layer.weight_ih_l0), cell.from_hidden(layer.weight_hh_l0), bias)
    from_inputs, from_hidden, bias = (weight.to(inputs.dtype) for weight in weights)
    entering = F.linear(inputs.transpose(0, 1), from_inputs, bias)  # [T, B, 4 D]
    outputs, *last = _RecurrentLoop.apply(  # type: ignore[no-untyped-call]
        cell, mask, entering, from_hidden, hidden, cell_state
    )
    return outputs.transpose(0, 1), last[0], last[1]


class _RecurrentLoop(torch.autograd.Function):
    """Saves for each step: preactivations, states, and the factor of the product."""

    @staticmethod
    def forward(
        ctx: Any,
        cell: RecurrentCell,
        mask: Tensor | None,
        entering: Tensor,
        weight: Tensor,
        hidden: Tensor,
        cell_state: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return all hidden states [T, B, D], the last one, and the last cell state.

        ``entering`` [T, B, 4 D] is the inputs' part of the gates with all biases, ``weight`` is [4
        D, D].
        """
        steps = len(entering)
        states = hidden.new_empty(steps + 1, *hidden.shape)  # [T + 1, B, D]
        cells = cell_state.new_empty(steps + 1, *cell_state.shape)  # [T + 1, B, C]
        gates = torch.empty_like(entering)
        factors = weight.new_empty(steps, *hidden.shape)
        states[0] = hidden
        cells[0] = cell_state
        for step in range(steps):
            factors[step] = states[step] if mask is None else states[step] * mask
            torch.addmm(entering[step], factors[step], weight.t(), out=gates[step])
            states[step + 1], cells[step + 1] = cell.step(
                gates[step].to(hidden.dtype), states[step], cells[step]
            )
        ctx.cell = cell
        ctx.mask = mask
        ctx.save_for_backward(states, cells, gates, factors, weight)
        return states[1:].clone(), states[-1].clone(), cells[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any,
        of_states: Tensor,
        of_hidden: Tensor,
        of_cell: Tensor,
    ) -> tuple[Tensor | None, ...]:
        """Return the gradients of all inputs from the gradients of all outputs."""
        states, cells, gates, factors, weight = ctx.saved_tensors
        of_gates = torch.empty_like(gates)
        for step in reversed(range(len(gates))):
            before = gates[step].to(states.dtype), states[step], cells[step]
            of_step, of_own, of_cell = ctx.cell.backward(
                *before, of_hidden + of_states[step], of_cell
            )
            of_gates[step] = of_step
            of_product = (of_gates[step] @ weight).to(states.dtype)
            of_hidden = of_own + (of_product if ctx.mask is None else of_product * ctx.mask)
        of_weight = of_gates.flatten(0, 1).t() @ factors.flatten(0, 1)
        return None, None, of_gates, of_weight, of_hidden, of_cell
