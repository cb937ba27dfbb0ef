"""Cells and stacks of cells against torch's, and both ways to run a stack."""

import torch
import torch.nn.functional as F
from recurrent_by_hand import SIZE, Agree, Draw, Stir, both_cells, up_to_three_layers
from torch import nn

from dialog.models.recurrent import RecurrentSettings
from dialog.models.recurrent.cells import RecurrentCell
from dialog.models.recurrent.sequences import run_layer
from dialog.models.recurrent.stack import Stack, StackLoop


@both_cells
def test_a_step_equals_torchs_cell(
    cell: RecurrentCell, draw: Draw, stir: Stir, agree: Agree
) -> None:
    theirs = stir({"lstm": nn.LSTMCell, "gru": nn.GRUCell}[cell.name](3, 4))
    inputs, hidden = draw(2, 3).requires_grad_(), draw(2, 4).requires_grad_()
    memory = draw(2, 4).requires_grad_() if cell.name == "lstm" else cell.first_state(hidden)
    gates = F.linear(inputs, cell.from_inputs(theirs.weight_ih), cell.from_inputs(theirs.bias_ih))
    gates = gates + F.linear(
        hidden, cell.from_hidden(theirs.weight_hh), cell.from_hidden(theirs.bias_hh)
    )
    new_hidden, new_memory = cell.step(gates, hidden, memory)
    leaves = [inputs, hidden, *theirs.parameters()]
    if cell.name == "lstm":
        agree(
            [new_hidden, new_memory],
            list(theirs(inputs, (hidden, memory))),
            [memory, *leaves],
            atol=1e-12,
        )
    else:
        agree([new_hidden], [theirs(inputs, hidden)], leaves, atol=1e-12)
        assert new_memory.shape == (2, 0)


@both_cells
def test_loop_with_a_mask_of_ones_equals_the_fused_kernel(
    cell: RecurrentCell, draw: Draw, stir: Stir, agree: Agree
) -> None:
    layer = stir(cell.layer(3, 4))
    inputs, hidden = draw(2, 5, 3).requires_grad_(), draw(2, 4).requires_grad_()
    memory = draw(2, cell.first_state(hidden).shape[1]).requires_grad_()
    fused = run_layer(cell, layer, inputs, hidden, memory)
    looped = run_layer(cell, layer, inputs, hidden, memory, torch.ones(2, 4).double())
    number = 3 if cell.name == "lstm" else 2  # a GRU has no cell
    leaves = [inputs, hidden, *[memory] * (number - 2), *layer.parameters()]
    agree(list(looped[:number]), list(fused[:number]), leaves, atol=1e-12)
    assert looped[2].shape == fused[2].shape == memory.shape


@both_cells
@up_to_three_layers
def test_layers_at_once_equal_layers_step_by_step(
    cell: RecurrentCell, layers: int, draw: Draw, stir: Stir, agree: Agree
) -> None:
    settings = RecurrentSettings(
        input_size=3, size=SIZE, layers=layers, variational=True, dropout=0.4
    )
    stack = stir(Stack(cell, settings, extra_size=0))
    inputs, hidden = draw(2, 5, 3).requires_grad_(), draw(2, layers, SIZE).requires_grad_()
    for training in (False, True):
        state = stack.train(training).start(hidden)
        assert len(state.masks) == 2 * training
        outputs, end = stack(inputs, state)
        loop, tops = StackLoop(stack, inputs, state), []
        for gates in loop.gates:
            loop.step(gates, inputs[:, 0, :0])
            tops.append(loop.top)
        number = 2 if cell.name == "lstm" else 1
        last = loop.state()
        ours, theirs = ([each.hidden, each.cell_state][:number] for each in (end, last))
        agree(
            [outputs, *ours],
            [torch.stack(tops, 1), *theirs],
            [inputs, hidden, *stack.parameters()],
            atol=1e-12,
        )
        assert end.masks is last.masks is state.masks
