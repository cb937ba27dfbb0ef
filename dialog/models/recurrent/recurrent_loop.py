"""A recurrent layer over a sequence with half-precision products, as one function with its own
gradient.

Formula: the loop that `run_layer` in `sequences.py` runs with a dropout mask.
States are in the precision of ``hidden``, products in that of ``inputs``. The gradient of the
weight is one product over all steps. Second derivatives are not supported.

Gain: under bfloat16, a training step of configs/model/lstm_bahdanau takes 0.89 of the time and 0.92
of the memory of the fused kernel in float32 on 64 rows of 48 source tokens, 0.91 and 0.82 on 32
rows of 96 (benchmarks/kernels.py; Intel Xeon with AMX, one thread, torch 2.13). A layer of width
128 alone takes 1.4 times as long, so narrow ones are fused.

Test: ``test_kernel_is_the_readable_loop`` in tests/models/recurrent/test_recurrent_loop.py.

Shapes: B rows, T steps, I input width, D hidden width, C cell state width.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from dialog.models.recurrent.cells import RecurrentCell


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
