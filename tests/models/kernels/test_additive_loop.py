"""The loop with a written-out gradient against the loop that a hook watches, which autograd differentiates."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dialog.models.contracts import Encoded
from dialog.models.kernels import additive_steps
from dialog.models.recurrent import GRU, LSTM, BahdanauDecoder
from dialog.models.recurrent.cells import Cell

Draw = Callable[..., Tensor]
Stir = Callable[[nn.Module], nn.Module]
Agree = Callable[..., None]

EMBEDDING, MEMORY, SIZE, KEYS = 3, 4, 5, 6
DROPOUTS = {"none": {}, "between layers": {"dropout": 0.4}, "variational": {"dropout": 0.4, "variational": True}}
both_cells = pytest.mark.parametrize("cell", [LSTM(), GRU()], ids=lambda cell: cell.name)
every_dropout = pytest.mark.parametrize("dropout", DROPOUTS)


def watched(module: nn.Module, weights: Tensor) -> None:
    """A hook that looks at nothing."""


def decoder_of(cell: Cell, layers: int = 1, **changes: Any) -> BahdanauDecoder:  # noqa: ANN401 - a recipe's values
    sizes = {"input_size": EMBEDDING, "memory_size": MEMORY, "size": SIZE}
    arguments = {"attention": {"name": "additive", "size": KEYS}, **sizes, **changes}
    return BahdanauDecoder(cell, layers=layers, **arguments)


@pytest.fixture
def source(draw: Draw) -> Encoded:
    """Rows of 4, 2, 1 and no real tokens, and what is not 0 at padding."""
    mask = torch.arange(4) < torch.tensor([[4], [2], [1], [0]])
    return Encoded(draw(4, 4, MEMORY).requires_grad_(), mask, draw(4, MEMORY).requires_grad_())


def both(decoder: BahdanauDecoder, inputs: Tensor, source: Encoded) -> tuple[list[Tensor], list[Tensor]]:
    """Outputs and states of the loop that is one function, and of the watched one, with the same dropout."""
    found = []
    for hook in (None, watched):
        torch.manual_seed(3)
        outputs, state = decoder(inputs, *decoder.start(source), hook)
        found.append([each for each in (outputs, state.stack.hidden, state.stack.memory) if each.numel()])
    assert ["_AdditiveLoop" in graph(each[0]) for each in found] == [True, False]
    return found[0], found[1]


def graph(outputs: Tensor) -> str:
    """The names of all that autograd would go through."""
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
@pytest.mark.parametrize("steps", [2, 3])
@pytest.mark.parametrize("block", [1, 50, 2**19], ids=lambda block: f"blocks of {block}")
def test_it_is_the_loop_that_a_hook_watches(
    cell: Cell,
    layers: int,
    dropout: str,
    steps: int,
    block: int,
    source: Encoded,
    draw: Draw,
    stir: Stir,
    agree: Agree,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(additive_steps, "BLOCK", block)
    decoder = stir(decoder_of(cell, layers, **DROPOUTS[dropout])).train()
    inputs = draw(4, steps, EMBEDDING).requires_grad_()
    leaves = [inputs, source.states, source.summary, *decoder.parameters()]
    agree(*both(decoder, inputs, source), leaves, atol=1e-12)


@pytest.mark.parametrize(("queries", "keys"), [(1, 100), (300, 1), (300, 100)])
def test_large_queries_and_keys_lose_nothing(
    queries: int, keys: int, source: Encoded, draw: Draw, stir: Stir, agree: Agree
) -> None:
    decoder, inputs = stir(decoder_of(LSTM())), draw(4, 3, EMBEDDING).requires_grad_()
    scorer = decoder.attention.scorer
    with torch.no_grad():
        scorer.query.weight.mul_(queries)
        scorer.key.weight.mul_(keys)
    largest = scorer.keys(source.states).abs().max(), scorer.query(decoder.start(source)[1].stack.hidden).abs().max()
    assert [each > additive_steps.LARGEST for each in largest] == [keys > 1, queries > 1]
    leaves = [inputs, source.states, source.summary, *decoder.parameters()]
    agree(*both(decoder, inputs, source), leaves, atol=1e-9)  # slopes of hundreds


def test_a_key_and_a_query_that_cancel_out_are_seen_to() -> None:
    keys, energy = torch.full((1, 2, 1), 90.0), torch.ones(1)
    keys[0, 1] = 88.0
    found = additive_steps.AdditiveSteps.over(keys, energy, torch.ones(1, 2, dtype=torch.bool))
    weights = found.weights(torch.full((1, 1), -89.0))
    torch.testing.assert_close(weights, torch.tensor([[1.0, -1.0]]).tanh().softmax(-1))


@both_cells
@every_dropout
def test_in_mixed_precision_states_stay_float32(
    cell: Cell, dropout: str, source: Encoded, draw: Draw, stir: Stir
) -> None:
    decoder = stir(decoder_of(cell, 2, **DROPOUTS[dropout])).float().train()
    inputs = draw(4, 6, EMBEDDING).float()
    source = Encoded(source.states.float(), source.mask, source.summary.float())
    with torch.autocast("cpu", torch.bfloat16):
        ours, theirs = both(decoder, inputs, source)
        assert [each.dtype for each in ours] == [torch.bfloat16] + [torch.float32] * (len(ours) - 1)
        gradients = [
            torch.autograd.grad(each[0].float().square().sum(), decoder.parameters()) for each in (ours, theirs)
        ]
    exact, _ = both(decoder, inputs, source)
    expected = torch.autograd.grad(exact[0].square().sum(), decoder.parameters())
    for one, other in zip([*ours, *gradients[0]], [*exact, *expected], strict=True):
        assert one.isfinite().all()
        assert (one.float() - other).norm() < 0.03 * other.norm() + 1e-3


def test_whole_in_bfloat16_it_is_near_float32(source: Encoded, draw: Draw, stir: Stir) -> None:
    decoder, inputs = stir(decoder_of(LSTM(), 2)).float(), draw(4, 6, EMBEDDING).float()
    exact, _ = both(decoder, inputs, Encoded(source.states.float(), source.mask, source.summary.float()))
    half = Encoded(source.states.bfloat16(), source.mask, source.summary.bfloat16())
    ours, _ = both(decoder.bfloat16(), inputs.bfloat16(), half)
    for one, other in zip(ours, exact, strict=True):
        assert one.dtype is torch.bfloat16
        assert (one.float() - other).norm() < 0.03 * other.norm()


def test_what_is_kept_for_the_gradient_does_not_grow_by_the_keys_at_each_step(
    source: Encoded, draw: Draw, stir: Stir
) -> None:
    decoder = stir(decoder_of(LSTM(), attention={"name": "additive", "size": 64}))

    def kept(steps: int, hook: Any) -> int:  # noqa: ANN401 - an attention hook, or none
        sizes: list[int] = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda each: sizes.append(each.numel()) or each, lambda each: each
        ):
            decoder(draw(4, steps, EMBEDDING), *decoder.start(source), hook)
        return sum(sizes)

    keys = source.mask.numel() * 64
    assert kept(9, None) - kept(4, None) < 5 * keys < kept(9, watched) - kept(4, watched)


def test_there_is_no_second_derivative(source: Encoded, draw: Draw, stir: Stir) -> None:
    decoder, inputs = stir(decoder_of(LSTM())), draw(4, 3, EMBEDDING).requires_grad_()
    outputs, _ = decoder(inputs, *decoder.start(source))
    (slope,) = torch.autograd.grad(outputs.square().sum(), inputs, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


@pytest.mark.parametrize(
    "attention",
    [{"name": "location", "size": KEYS}, {"name": "multi_head", "heads": 2, "size": KEYS}, {"name": "none"}],
)
def test_other_attentions_ask_at_each_step(attention: dict[str, Any], source: Encoded, draw: Draw, stir: Stir) -> None:
    decoder = stir(decoder_of(LSTM(), attention=attention))
    outputs, _ = decoder(draw(4, 3, EMBEDDING), *decoder.start(source))
    assert "_AdditiveLoop" not in graph(outputs)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@both_cells
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("precision", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_on_a_gpu_it_is_the_loop_that_a_hook_watches(
    cell: Cell, layers: int, precision: torch.dtype, source: Encoded, draw: Draw, stir: Stir, agree: Agree
) -> None:
    dtype = precision if precision.itemsize >= 4 else torch.float32
    decoder = stir(decoder_of(cell, layers)).to("cuda", dtype)
    states, summary = (each.detach().to("cuda", dtype).requires_grad_() for each in (source.states, source.summary))
    inputs = draw(4, 5, EMBEDDING).to("cuda", dtype).requires_grad_()
    with torch.autocast("cuda", precision, enabled=precision.itemsize < 4):
        ours, theirs = both(decoder, inputs, Encoded(states, source.mask.cuda(), summary))
    leaves = [inputs, states, summary, *decoder.parameters()]
    if precision.itemsize >= 4:
        agree(ours, theirs, leaves, atol=1e-12 if precision is torch.float64 else 1e-4)
        return
    found, expected = (torch.autograd.grad(each[0].float().square().sum(), leaves) for each in (ours, theirs))
    for one, other in zip([*ours, *found], [*theirs, *expected], strict=True):
        assert one.isfinite().all()
        assert (one.float() - other.float()).norm() < 0.05 * other.float().norm() + 1e-3
