"""The loop with its own gradient against the readable loop, differentiated by autograd."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from dialog.models.recurrent import GRU, LSTM
from dialog.models.recurrent.cells import RecurrentCell
from dialog.models.recurrent.sequences import SMALLEST, recurrent_loop, run_layer

Draw = Callable[..., Tensor]
Stir = Callable[[nn.Module], nn.Module]
Agree = Callable[..., None]

both_cells = pytest.mark.parametrize("cell", [LSTM(), GRU()], ids=lambda cell: cell.name)


@both_cells
@pytest.mark.parametrize("masked", [False, True])
def test_kernel_is_the_readable_loop(
    cell: RecurrentCell, masked: bool, draw: Draw, stir: Stir, agree: Agree
) -> None:
    layer = stir(cell.layer(3, 4))
    inputs, hidden = draw(2, 5, 3).requires_grad_(), draw(2, 4).requires_grad_()
    memory = draw(2, cell.first_state(hidden).shape[1]).requires_grad_()
    mask = draw(2, 4) if masked else torch.ones(2, 4).double()
    readable = run_layer(cell, layer, inputs, hidden, memory, mask)
    outputs, *last = recurrent_loop(cell, layer, inputs, hidden, memory, mask if masked else None)
    number = 2 if cell.name == "lstm" else 1  # a GRU has no cell
    leaves = [inputs, hidden, *[memory] * (number - 1), *layer.parameters()]
    agree([outputs, *last[:number]], list(readable[: number + 1]), leaves, atol=1e-12)


@both_cells
@pytest.mark.parametrize(("size", "low"), [(SMALLEST, True), (SMALLEST // 2, False)])
def test_only_wide_layers_train_with_products_in_half_precision(
    cell: RecurrentCell, size: int, low: bool
) -> None:
    torch.manual_seed(1)
    layer, inputs = cell.layer(6, size), torch.randn(3, 7, 6)
    hidden = torch.zeros(3, size)
    exact = run_layer(cell, layer, inputs, hidden, cell.first_state(hidden))
    with torch.autocast("cpu", torch.bfloat16):
        trained = run_layer(cell, layer, inputs, hidden, cell.first_state(hidden))
        with torch.no_grad():
            evaluated = run_layer(cell, layer, inputs, hidden, cell.first_state(hidden))
    assert all(state.dtype == torch.float32 for state in trained)
    assert torch.equal(evaluated[0], exact[0])
    assert torch.equal(trained[0], exact[0]) is not low
    torch.testing.assert_close(trained[0], exact[0], rtol=0, atol=0.01)
    torch.testing.assert_close(trained[1], trained[0][:, -1], rtol=0, atol=0)
