"""The loop with its own gradient against the readable loop that runs with a hook, differentiated by
autograd.
"""

from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor, nn

from dialog.config.components import construct
from dialog.models.attention import additive
from dialog.models.contracts import Encoded
from dialog.models.recurrent import GRU, LSTM, BahdanauDecoder, bahdanau
from dialog.models.recurrent.cells import RecurrentCell

Draw = Callable[..., Tensor]
Stir = Callable[[nn.Module], nn.Module]
Agree = Callable[..., None]

EMBEDDING, MEMORY, SIZE, KEYS = 3, 4, 5, 6
DROPOUTS = {
    "none": {},
    "between layers": {"dropout": 0.4},
    "variational": {"dropout": 0.4, "variational": True},
}
both_cells = pytest.mark.parametrize("cell", [LSTM(), GRU()], ids=lambda cell: cell.name)
every_dropout = pytest.mark.parametrize("dropout", DROPOUTS)


def watched(module: nn.Module, weights: Tensor) -> None:
    """A hook without effect, which selects the readable loop."""


def decoder_of(cell: RecurrentCell, layers: int = 1, **changes: Any) -> BahdanauDecoder:
    sizes = {"input_size": EMBEDDING, "memory_size": MEMORY, "size": SIZE}
    arguments = {"attention": {"name": "additive", "size": KEYS}, **sizes, **changes}
    return construct(partial(BahdanauDecoder, cell), layers=layers, **arguments)


@pytest.fixture
def source(draw: Draw) -> Encoded:
    """Rows of 4, 2, 1 and no real tokens, with states at padding that are not 0."""
    mask = torch.arange(4) < torch.tensor([[4], [2], [1], [0]])
    return Encoded(draw(4, 4, MEMORY).requires_grad_(), mask, draw(4, MEMORY).requires_grad_())


def both(
    decoder: BahdanauDecoder, inputs: Tensor, source: Encoded
) -> tuple[list[Tensor], list[Tensor]]:
    """Outputs and states of the kernel and of the readable loop, with the same dropout."""
    results = []
    for hook in (None, watched):
        torch.manual_seed(3)
        outputs, state = decoder(inputs, *decoder.start(source), hook)
        tensors = (outputs, state.stack.hidden, state.stack.cell_state)
        results.append([tensor for tensor in tensors if tensor.numel()])
    assert ["_AdditiveLoop" in graph(tensors[0]) for tensors in results] == [True, False]
    return results[0], results[1]


def graph(outputs: Tensor) -> str:
    """The names of all nodes of the autograd graph."""
    names, left, seen = [], [outputs.grad_fn], set()
    while left:
        node = left.pop()
        if node is not None and node not in seen:
            seen.add(node)
            names.append(node.name())
            left.extend(each for each, _ in node.next_functions)
    return " ".join(names)


@both_cells
@pytest.mark.parametrize("layers", [1, 2, 3])
@every_dropout
@pytest.mark.parametrize("block", [1, 2**19], ids=["blocks of one row", "one block"])
def test_kernel_is_the_readable_loop(
    cell: RecurrentCell,
    layers: int,
    dropout: str,
    block: int,
    source: Encoded,
    draw: Draw,
    stir: Stir,
    agree: Agree,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(additive, "BLOCK", block)
    decoder = stir(decoder_of(cell, layers, **DROPOUTS[dropout])).train()
    inputs = draw(4, 3, EMBEDDING).requires_grad_()
    leaves = [inputs, source.states, source.summary, *decoder.parameters()]
    agree(*both(decoder, inputs, source), leaves, atol=1e-12)


@both_cells
def test_scoring_runs_the_kernel(
    cell: RecurrentCell, source: Encoded, draw: Draw, stir: Stir, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder, inputs = stir(decoder_of(cell, 2)).eval(), draw(4, 3, EMBEDDING)
    kernel = mock.Mock(side_effect=bahdanau.additive_loop)
    monkeypatch.setattr(bahdanau, "additive_loop", kernel)
    with torch.inference_mode():
        (ours, state), (readable, expected) = (
            decoder(inputs, *decoder.start(source), hook) for hook in (None, watched)
        )
    assert kernel.call_count == 1
    torch.testing.assert_close(ours, readable, rtol=0, atol=1e-12)
    torch.testing.assert_close(state.stack.hidden, expected.stack.hidden, rtol=0, atol=1e-12)
    torch.testing.assert_close(
        state.stack.cell_state, expected.stack.cell_state, rtol=0, atol=1e-12
    )


@both_cells
@every_dropout
def test_states_stay_float32_in_mixed_precision(
    cell: RecurrentCell, dropout: str, source: Encoded, draw: Draw, stir: Stir
) -> None:
    decoder = stir(decoder_of(cell, 2, **DROPOUTS[dropout])).float().train()
    inputs = draw(4, 6, EMBEDDING).float()
    source = Encoded(source.states.float(), source.mask, source.summary.float())
    with torch.autocast("cpu", torch.bfloat16):
        ours, theirs = both(decoder, inputs, source)
        assert [each.dtype for each in ours] == [torch.bfloat16] + [torch.float32] * (len(ours) - 1)
        gradients = [
            torch.autograd.grad(each[0].float().square().sum(), decoder.parameters())
            for each in (ours, theirs)
        ]
    exact, _ = both(decoder, inputs, source)
    expected = torch.autograd.grad(exact[0].square().sum(), decoder.parameters())
    for one, other in zip([*ours, *gradients[0]], [*exact, *expected], strict=True):
        assert one.isfinite().all()
        assert (one.float() - other).norm() < 0.03 * other.norm() + 1e-3


def test_bfloat16_weights_stay_near_float32(source: Encoded, draw: Draw, stir: Stir) -> None:
    decoder, inputs = stir(decoder_of(LSTM(), 2)).float(), draw(4, 6, EMBEDDING).float()
    exact, _ = both(
        decoder, inputs, Encoded(source.states.float(), source.mask, source.summary.float())
    )
    half = Encoded(source.states.bfloat16(), source.mask, source.summary.bfloat16())
    ours, _ = both(decoder.bfloat16(), inputs.bfloat16(), half)
    for one, other in zip(ours, exact, strict=True):
        assert one.dtype is torch.bfloat16
        assert (one.float() - other).norm() < 0.03 * other.norm()


def test_saved_tensors_do_not_grow_by_the_keys(source: Encoded, draw: Draw, stir: Stir) -> None:
    decoder = stir(decoder_of(LSTM(), attention={"name": "additive", "size": 64}))

    def saved(steps: int, hook: Any) -> int:
        sizes: list[int] = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda each: sizes.append(each.numel()) or each, lambda each: each
        ):
            decoder(draw(4, steps, EMBEDDING), *decoder.start(source), hook)
        return sum(sizes)

    keys = source.mask.numel() * 64
    assert saved(9, None) - saved(4, None) < 5 * keys < saved(9, watched) - saved(4, watched)


def test_second_derivatives_are_not_supported(source: Encoded, draw: Draw, stir: Stir) -> None:
    decoder, inputs = stir(decoder_of(LSTM())), draw(4, 3, EMBEDDING).requires_grad_()
    outputs, _ = decoder(inputs, *decoder.start(source))
    (gradient,) = torch.autograd.grad(outputs.square().sum(), inputs, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


@pytest.mark.parametrize(
    "attention",
    [
        {"name": "location", "size": KEYS},
        {"name": "multi_head", "heads": 2, "size": KEYS},
        {"name": "none"},
    ],
)
def test_other_attentions_run_the_readable_loop(
    attention: dict[str, Any], source: Encoded, draw: Draw, stir: Stir
) -> None:
    decoder = stir(decoder_of(LSTM(), attention=attention))
    outputs, _ = decoder(draw(4, 3, EMBEDDING), *decoder.start(source))
    assert "_AdditiveLoop" not in graph(outputs)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@both_cells
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("precision", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_kernel_is_the_readable_loop_on_a_gpu(
    cell: RecurrentCell,
    layers: int,
    precision: torch.dtype,
    source: Encoded,
    draw: Draw,
    stir: Stir,
    agree: Agree,
) -> None:
    dtype = precision if precision.itemsize >= 4 else torch.float32
    decoder = stir(decoder_of(cell, layers)).to("cuda", dtype)
    states, summary = (
        each.detach().to("cuda", dtype).requires_grad_() for each in (source.states, source.summary)
    )
    inputs = draw(4, 5, EMBEDDING).to("cuda", dtype).requires_grad_()
    with torch.autocast("cuda", precision, enabled=precision.itemsize < 4):
        ours, theirs = both(decoder, inputs, Encoded(states, source.mask.cuda(), summary))
    leaves = [inputs, states, summary, *decoder.parameters()]
    if precision.itemsize >= 4:
        agree(ours, theirs, leaves, atol=1e-12 if precision is torch.float64 else 1e-4)
        return
    gradients, expected = (
        torch.autograd.grad(each[0].float().square().sum(), leaves) for each in (ours, theirs)
    )
    for one, other in zip([*ours, *gradients], [*theirs, *expected], strict=True):
        assert one.isfinite().all()
        assert (one.float() - other.float()).norm() < 0.05 * other.float().norm() + 1e-3
