"""Recurrent encoders against torch's, decoders against a loop over single numbers, in float64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from dialog.errors import UserError
from dialog.models.contracts import Encoded, Only
from dialog.models.recurrent import BRIDGES, GRU, LSTM, BahdanauDecoder, LuongDecoder, RecurrentEncoder
from dialog.models.recurrent import encoder as encoder_module
from dialog.models.recurrent.cells import Cell, run, shared_mask
from dialog.models.recurrent.stack import Loop, Stack

Draw = Callable[..., Tensor]
Stir = Callable[[nn.Module], nn.Module]
Agree = Callable[..., None]
Vector = list[Tensor]

CELLS: list[Cell] = [LSTM(), GRU()]
FUSED = {"lstm": nn.LSTM, "gru": nn.GRU}
both_cells = pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
up_to_three_layers = pytest.mark.parametrize("layers", [1, 2, 3])

# ------------------------------------------------------------------ encoder


def in_torchs_names(ours: RecurrentEncoder) -> dict[str, Tensor]:
    return {
        name.replace("_l0", f"_l{depth}") + suffix: parameter
        for suffix, stack in (("", ours.forward_layers), ("_reverse", ours.backward_layers))
        for depth, layer in enumerate(stack)
        for name, parameter in layer.named_parameters()
    }


@both_cells
@up_to_three_layers
@pytest.mark.parametrize("bidirectional", [True, False], ids=["both ways", "one way"])
def test_encoder_agrees_with_torch_on_packed_sequences(
    cell: Cell, layers: int, bidirectional: bool, draw: Draw, stir: Stir, agree: Agree
) -> None:
    size, total = 6, 7
    ours = stir(RecurrentEncoder(cell, input_size=5, size=size, layers=layers, bidirectional=bidirectional))
    width = size // 2 if bidirectional else size
    theirs = FUSED[cell.name](5, width, layers, bidirectional=bidirectional, batch_first=True).double()
    named = in_torchs_names(ours)
    assert named.keys() == dict(theirs.named_parameters()).keys()
    lengths = torch.tensor([3, 5, 1, 4])  # none as long as the batch, not sorted
    mask = torch.arange(total) < lengths.unsqueeze(1)
    inputs = draw(4, total, 5).requires_grad_()  # not 0 at padding

    encoded = ours(inputs, mask)
    packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
    read, ends = torch.func.functional_call(theirs, named, (packed,))
    ends = ends[0] if cell.name == "lstm" else ends
    states, _ = pad_packed_sequence(read, batch_first=True, total_length=total)
    summary = torch.cat([ends[-2], ends[-1]], -1) if bidirectional else ends[-1]

    assert encoded.states.shape == (4, total, size)
    assert torch.equal(encoded.mask, mask)
    agree([encoded.states, encoded.summary], [states, summary], [inputs, *ours.parameters()])


@both_cells
def test_padding_reaches_neither_direction(cell: Cell, draw: Draw, stir: Stir) -> None:
    encoder, inputs = stir(RecurrentEncoder(cell, input_size=3, size=4, layers=2)), draw(4, 5, 3)
    lengths = [5, 3, 1, 0]
    mask = torch.arange(5) < torch.tensor(lengths).unsqueeze(1)
    encoded = encoder(inputs, mask)
    garbage = torch.where(mask.unsqueeze(-1), inputs, 50 * draw(4, 5, 3))
    wider = torch.cat([garbage, 50 * draw(4, 2, 3)], 1)
    for each in (garbage, wider):
        found = encoder(each, F.pad(mask, (0, each.shape[1] - 5)))
        torch.testing.assert_close(found.states[:, :5], encoded.states, rtol=0, atol=1e-12)
        torch.testing.assert_close(found.summary, encoded.summary, rtol=0, atol=1e-12)
        assert not found.states[:, 5:].any()
    for row, length in enumerate(lengths[:3]):
        alone = encoder(inputs[row : row + 1, :length], torch.ones(1, length, dtype=torch.bool))
        torch.testing.assert_close(alone.states[0], encoded.states[row, :length], rtol=0, atol=1e-12)
        torch.testing.assert_close(alone.summary[0], encoded.summary[row], rtol=0, atol=1e-12)
        assert not encoded.states[row, length:].any()
    assert not encoded.states[3].any()
    assert not encoded.summary[3].any()


@both_cells
def test_the_test_of_padding_tells_a_backward_direction_that_begins_in_it(cell: Cell, draw: Draw, stir: Stir) -> None:
    encoder, inputs = stir(RecurrentEncoder(cell, input_size=3, size=4)), draw(1, 5, 3)
    mask = (torch.arange(5) < 3).unsqueeze(0)
    both = FUSED[cell.name](3, 2, bidirectional=True, batch_first=True).double()
    unpacked, _ = torch.func.functional_call(both, in_torchs_names(encoder), (inputs,))
    states = encoder(inputs, mask).states
    torch.testing.assert_close(unpacked[:, :3, :2], states[:, :3, :2], rtol=0, atol=1e-12)
    assert (unpacked[:, :3, 2:] - states[:, :3, 2:]).abs().max() > 1e-3


def test_encoder_of_an_odd_size_cannot_read_both_ways() -> None:
    with pytest.raises(ValueError, match="must be even"):
        RecurrentEncoder(LSTM(), input_size=4, size=5)
    assert RecurrentEncoder(LSTM(), input_size=4, size=5, bidirectional=False).size == 5


def test_forget_gates_begin_open() -> None:
    for cell, biases in ((LSTM(), [0.0, 1.0, 0.0, 0.0]), (GRU(), [0.0, 0.0, 0.0])):
        layer = cell.layer(3, 4)
        both = layer.bias_ih_l0 + layer.bias_hh_l0
        assert [gate.unique().tolist() for gate in both.chunk(len(biases))] == [[each] for each in biases]
        for gate in layer.weight_hh_l0.chunk(len(biases)):
            torch.testing.assert_close(gate @ gate.T, torch.eye(4))


# ------------------------------------------------------------------ cells


@both_cells
def test_a_step_of_a_cell_is_torchs(cell: Cell, draw: Draw, stir: Stir, agree: Agree) -> None:
    theirs = stir({"lstm": nn.LSTMCell, "gru": nn.GRUCell}[cell.name](3, 4))
    inputs, hidden = draw(2, 3).requires_grad_(), draw(2, 4).requires_grad_()
    memory = draw(2, 4).requires_grad_() if cell.name == "lstm" else cell.memory(hidden)
    gates = F.linear(inputs, cell.from_inputs(theirs.weight_ih), cell.from_inputs(theirs.bias_ih))
    gates = gates + F.linear(hidden, cell.from_hidden(theirs.weight_hh), cell.from_hidden(theirs.bias_hh))
    new_hidden, new_memory = cell.step(gates, hidden, memory)
    leaves = [inputs, hidden, *theirs.parameters()]
    if cell.name == "lstm":
        agree([new_hidden, new_memory], list(theirs(inputs, (hidden, memory))), [memory, *leaves], atol=1e-12)
    else:
        agree([new_hidden], [theirs(inputs, hidden)], leaves, atol=1e-12)
        assert new_memory.shape == (2, 0)


@both_cells
def test_a_loop_that_keeps_everything_is_the_fused_kernel(cell: Cell, draw: Draw, stir: Stir, agree: Agree) -> None:
    layer = stir(cell.layer(3, 4))
    inputs, hidden = draw(2, 5, 3).requires_grad_(), draw(2, 4).requires_grad_()
    memory = draw(2, cell.memory(hidden).shape[1]).requires_grad_()
    fused = run(cell, layer, inputs, hidden, memory)
    looped = run(cell, layer, inputs, hidden, memory, torch.ones(2, 4).double())
    number = 3 if cell.name == "lstm" else 2  # a GRU has no cell
    leaves = [inputs, hidden, *[memory] * (number - 2), *layer.parameters()]
    agree(list(looped[:number]), list(fused[:number]), leaves, atol=1e-12)
    assert looped[2].shape == fused[2].shape == memory.shape


# ------------------------------------------------------------------ decoders, number by number

EMBEDDING, MEMORY, SIZE, KEYS = 3, 4, 3, 2
ADDITIVE = {"name": "additive", "size": KEYS}
DECODERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "bahdanau": (BahdanauDecoder, {}),
    "luong": (LuongDecoder, {"input_feeding": True}),
    "luong without feeding": (LuongDecoder, {"input_feeding": False}),
}
every_decoder = pytest.mark.parametrize("kind", DECODERS)


def decoder_of(kind: str, cell: Cell, layers: int = 1, **changes: Any) -> nn.Module:  # noqa: ANN401 - a recipe's values
    make, arguments = DECODERS[kind]
    sizes = {"input_size": EMBEDDING, "memory_size": MEMORY, "size": SIZE}
    return make(cell, layers=layers, **{**sizes, "attention": ADDITIVE, **arguments, **changes})


def dot(one: Vector, other: Vector) -> Tensor:
    return sum((a * b for a, b in zip(one, other, strict=True)), start=torch.zeros((), dtype=torch.float64))


def times(weight: Tensor, vector: Vector, bias: Tensor | None = None) -> Vector:
    products = [dot(list(row), vector) for row in weight]
    return products if bias is None else [p + b for p, b in zip(products, bias, strict=True)]


def align(decoder: nn.Module, query: Vector, sources: list[Vector]) -> tuple[Vector, Vector]:
    """Weights alpha_j = softmax_j v . tanh(W q + U h_j), and context c = sum_j alpha_j h_j."""
    scorer = decoder.attention.scorer
    asked = times(scorer.query.weight, query)
    energies = []
    for source in sources:
        mixed = [(a + b).tanh() for a, b in zip(asked, times(scorer.key.weight, source), strict=True)]
        energies.append(dot(list(scorer.energy.weight[0]), mixed).exp())
    weights = [energy / sum(energies) for energy in energies]
    return weights, [dot(weights, [source[i] for source in sources]) for i in range(len(sources[0]))]


def cell_by_hand(
    layer: nn.Module, entering: Vector, hidden: Vector, memory: Vector, kept: Vector
) -> tuple[Vector, Vector]:
    """Gers et al. 2000, gates in the order input, forget, cell, output; Cho et al. 2014, gates reset, update, new.

    What dropout has kept of the state is for its products alone: a GRU's leak would grow by 1 / (1 - p) at each step.
    """
    x = times(layer.weight_ih_l0, entering, layer.bias_ih_l0)
    h = times(layer.weight_hh_l0, [a * b for a, b in zip(hidden, kept, strict=True)], layer.bias_hh_l0)
    d = len(hidden)
    if isinstance(layer, nn.LSTM):
        gates = [a + b for a, b in zip(x, h, strict=True)]
        memory = [gates[d + i].sigmoid() * memory[i] + gates[i].sigmoid() * gates[2 * d + i].tanh() for i in range(d)]
        return [gates[3 * d + i].sigmoid() * memory[i].tanh() for i in range(d)], memory
    reset, update = ([(x[k * d + i] + h[k * d + i]).sigmoid() for i in range(d)] for k in range(2))
    new = [(x[2 * d + i] + reset[i] * h[2 * d + i]).tanh() for i in range(d)]
    return [(1 - update[i]) * new[i] + update[i] * hidden[i] for i in range(d)], []


class StackByHand:
    """Layers of cells for one row; kept are the masks [2][L][D] of the recurrent states and of what goes up."""

    def __init__(self, layers: nn.ModuleList, first: list[Vector], kept: list[Tensor]) -> None:
        self.layers, self.hidden = layers, first
        zero = torch.zeros((), dtype=torch.float64)
        self.memory = [[zero] * SIZE if isinstance(layer, nn.LSTM) else [] for layer in layers]
        self.recurrent, self.upward = kept or [torch.ones(len(layers), SIZE, dtype=torch.float64)] * 2

    def step(self, entering: Vector) -> None:
        for depth, layer in enumerate(self.layers):
            if depth:
                entering = [a * b for a, b in zip(entering, self.upward[depth], strict=True)]
            kept = list(self.recurrent[depth])
            self.hidden[depth], self.memory[depth] = cell_by_hand(
                layer, entering, self.hidden[depth], self.memory[depth], kept
            )
            entering = self.hidden[depth]


Told = tuple[list[Vector], list[Vector]]
"""Outputs and weights of each step."""


def bahdanau_by_hand(
    decoder: nn.Module, layers: StackByHand, tokens: Tensor, sources: list[Vector], mistake: str
) -> Told:
    outputs, shown = [], []
    weights, context = align(decoder, layers.hidden[-1], sources)
    for token in tokens:
        if mistake != "asks with the other state":
            weights, context = align(decoder, layers.hidden[-1], sources)
        layers.step([*token, *context])
        if mistake == "asks with the other state":
            weights, context = align(decoder, layers.hidden[-1], sources)
        pairs = times(decoder.readout.weight, [*layers.hidden[-1], *token, *context], decoder.readout.bias)
        outputs.append([torch.maximum(pairs[2 * i], pairs[2 * i + 1]) for i in range(EMBEDDING)])
        shown.append(weights)
    return outputs, shown


def luong_by_hand(decoder: nn.Module, layers: StackByHand, tokens: Tensor, sources: list[Vector], mistake: str) -> Told:
    outputs, shown = [], []
    fed = [torch.zeros((), dtype=torch.float64)] * EMBEDDING
    for token in tokens:
        before = layers.hidden[-1]
        layers.step([*token, *fed] if decoder.input_feeding else [*token])
        top = layers.hidden[-1]
        weights, context = align(decoder, before if mistake == "asks with the other state" else top, sources)
        outputs.append([each.tanh() for each in times(decoder.attentional.weight, [*context, *top])])
        fed = top if mistake == "feeds the state" else outputs[-1]
        shown.append(weights)
    return outputs, shown


def by_hand(
    decoder: nn.Module, inputs: Tensor, encoded: Encoded, kept: tuple[Tensor, ...] = (), mistake: str = ""
) -> tuple[list[Tensor], list[Tensor]]:
    """Outputs [B, T, E], hidden and cell [B, L, D], and weights [B][T, S] of the docstrings' equations."""
    tell = bahdanau_by_hand if isinstance(decoder, BahdanauDecoder) else luong_by_hand
    rows, shown = [], []
    for row, length in enumerate(encoded.mask.sum(1).tolist()):
        dense = decoder.bridge.dense
        first = [each.tanh() for each in times(dense.weight, list(encoded.summary[row]), dense.bias)]
        hidden = [first[begin : begin + SIZE] for begin in range(0, len(first), SIZE)]
        layers = StackByHand(decoder.stack.layers, hidden, [mask[row] for mask in kept])
        if mistake == "begins with the cell":
            layers.hidden, layers.memory = layers.memory, layers.hidden
        sources = [list(state) for state in encoded.states[row, :length]]
        outputs, weights = tell(decoder, layers, inputs[row], sources, mistake)
        cell = [layers.memory] if layers.memory[0] else []
        rows.append([stack(each) for each in (outputs, layers.hidden, *cell)])
        shown.append(stack(weights))
    return [torch.stack(each) for each in zip(*rows, strict=True)], shown


def stack(vectors: list[Vector]) -> Tensor:
    return torch.stack([torch.stack(vector) for vector in vectors])


def told(outputs: Tensor, state: Any) -> list[Tensor]:  # noqa: ANN401 - the state of either decoder
    cell = [state.stack.memory] if state.stack.memory.shape[2] else []
    return [outputs, state.stack.hidden, *cell]


@pytest.fixture
def source(draw: Draw) -> Encoded:
    """A source whose states at padding are not 0, so that a decoder that looks there is found out."""
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]]).bool()
    return Encoded(draw(3, 4, MEMORY).requires_grad_(), mask, draw(3, MEMORY).requires_grad_())


@every_decoder
@both_cells
@up_to_three_layers
def test_decoder_is_the_equations_of_its_docstring(
    kind: str, cell: Cell, layers: int, source: Encoded, draw: Draw, stir: Stir, agree: Agree
) -> None:
    decoder = stir(decoder_of(kind, cell, layers))
    inputs = draw(3, 3, EMBEDDING).requires_grad_()
    shown: list[tuple[nn.Module, Tensor]] = []
    outputs, state = decoder(inputs, *decoder.start(source), lambda module, weights: shown.append((module, weights)))
    ((module, seen),) = shown
    assert module is decoder.attention
    assert seen.shape == (3, 1, 3, 4)
    expected, weights = by_hand(decoder, inputs, source)
    leaves = [inputs, source.states, source.summary, *decoder.parameters()]
    ours = [seen[row, 0, :, : weights[row].shape[1]] for row in range(3)]
    agree([*told(outputs, state), *ours], [*expected, *weights], leaves, atol=1e-12)
    assert not seen.masked_fill(source.mask[:, None, None], 0).any()
    unseen, _ = decoder(inputs, *decoder.start(source))
    torch.testing.assert_close(unseen, outputs, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "mistake"),
    [
        *((kind, "asks with the other state") for kind in DECODERS),
        *((kind, "begins with the cell") for kind in DECODERS),
        ("luong", "feeds the state"),
    ],
)
def test_the_reference_tells_a_mistake(kind: str, mistake: str, source: Encoded, draw: Draw, stir: Stir) -> None:
    decoder, inputs = stir(decoder_of(kind, LSTM())), draw(3, 3, EMBEDDING)
    outputs, _ = decoder(inputs, *decoder.start(source))
    (wrong, *_), _ = by_hand(decoder, inputs, source, mistake=mistake)
    assert (outputs - wrong).abs().max() > 1e-3


@every_decoder
@both_cells
@pytest.mark.parametrize("attention", [ADDITIVE, {"name": "none"}, {"name": "location", "size": 2}])
def test_a_target_at_once_is_token_by_token(
    kind: str, cell: Cell, attention: dict[str, Any], source: Encoded, draw: Draw, stir: Stir
) -> None:
    decoder, inputs = stir(decoder_of(kind, cell, 2, attention=attention)), draw(3, 4, EMBEDDING)
    memory, begun = decoder.start(source)
    whole: list[Tensor] = []
    outputs, end = decoder(inputs, memory, begun, lambda _, weights: whole.append(weights))
    for sizes in ([1] * 4, [1, 3], [2, 2], [3, 1]):
        state, parts, shown = begun, [], []
        for part in inputs.split(sizes, 1):
            found, state = decoder(part, memory, state, lambda _, weights, seen=shown: seen.append(weights))
            parts.append(found)
        torch.testing.assert_close(told(torch.cat(parts, 1), state), told(outputs, end), rtol=0, atol=1e-12)
        assert bool(shown) == bool(whole) == (attention["name"] != "none") == (decoder.pointer is not None)
        if whole:
            torch.testing.assert_close(torch.cat(shown, 2), whole[0], rtol=0, atol=1e-12)


@every_decoder
def test_a_hook_for_another_module_is_not_called(kind: str, source: Encoded, draw: Draw, stir: Stir) -> None:
    decoder, shown = stir(decoder_of(kind, LSTM())), []
    memory, state = decoder.start(source)
    for module in (decoder.stack, decoder.attention):
        decoder(draw(3, 2, EMBEDDING), memory, state, Only(module, lambda *call: shown.append(call)))
    ((module, weights),) = shown
    assert module is decoder.attention
    assert weights.shape == (3, 1, 2, 4)


# ------------------------------------------------------------------ what is in the loop, and what is not


@both_cells
@up_to_three_layers
def test_layers_at_once_are_layers_step_by_step(cell: Cell, layers: int, draw: Draw, stir: Stir, agree: Agree) -> None:
    arguments = {"input_size": 3, "extra_size": 0, "size": SIZE, "layers": layers}
    of_layers = stir(Stack(cell, **arguments, variational=True, dropout=0.4))
    inputs, hidden = draw(2, 5, 3).requires_grad_(), draw(2, layers, SIZE).requires_grad_()
    for training in (False, True):
        state = of_layers.train(training).start(hidden)
        assert len(state.kept) == 2 * training
        outputs, end = of_layers(inputs, state)
        loop, tops = Loop(of_layers, inputs, state), []
        for gates in loop.gates:
            loop.step(gates, inputs[:, 0, :0])
            tops.append(loop.top)
        number = 2 if cell.name == "lstm" else 1
        found = loop.state()
        ours, theirs = ([each.hidden, each.memory][:number] for each in (end, found))
        agree([outputs, *ours], [torch.stack(tops, 1), *theirs], [inputs, hidden, *of_layers.parameters()], atol=1e-12)
        assert end.kept is found.kept is state.kept


@every_decoder
@both_cells
@pytest.mark.parametrize("layers", [1, 2])
@torch.no_grad()  # with gradients Bahdanau's loop is one function, see test_additive_loop.py
def test_the_loop_does_only_what_needs_the_step_before(
    kind: str, cell: Cell, layers: int, source: Encoded, draw: Draw, stir: Stir, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder, steps = stir(decoder_of(kind, cell, layers)), 5
    projected, read, fused, products = [], [], [], []
    linear = F.linear
    decoder.attention.scorer.key.register_forward_hook(lambda *_: projected.append(1))
    decoder.attention.register_forward_hook(lambda *_: read.append(1))
    for layer in decoder.stack.layers:
        layer.register_forward_hook(lambda *_: fused.append(1))

    def counted(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        products.append((tuple(inputs.shape[:-1]), tuple(weight.shape)))
        return linear(inputs, weight, bias)

    monkeypatch.setattr(F, "linear", counted)
    memory, state = decoder.start(source)
    assert len(projected) == 1
    products.clear()
    _, state = decoder(draw(3, steps, EMBEDDING), memory, state)
    first = products.copy()
    calls = len(read), len(fused)
    decoder(draw(3, 1, EMBEDDING), memory, state)
    assert len(projected) == 1

    token_gates = ((steps, 3), (4 * SIZE, EMBEDDING))
    upper = [((3,), (4 * SIZE, 2 * SIZE))] * (layers - 1)

    def asked(queries: int) -> list[Any]:
        return [((3, queries), (KEYS, SIZE)), ((3, queries, 4), (1, KEYS))]  # the query, the energies

    if kind == "bahdanau":
        bottom = ((3,), (4 * SIZE, MEMORY + SIZE))  # without the token's share
        readout = ((steps, 3), (2 * EMBEDDING, SIZE + EMBEDDING + MEMORY))
        expected = [token_gates, *[*asked(1), bottom, *upper] * steps, readout]
    elif kind == "luong":
        bottom = ((3,), (4 * SIZE, EMBEDDING + SIZE))
        vector = ((3, 1), (EMBEDDING, MEMORY + SIZE))
        expected = [token_gates, *[bottom, *upper, *asked(1), vector] * steps]
    else:
        expected = [*asked(steps), ((3, steps), (EMBEDDING, MEMORY + SIZE))]
    assert first == expected
    assert calls == ((1, layers) if kind == "luong without feeding" else (steps, 0))


# ------------------------------------------------------------------ dropout


@every_decoder
def test_dropout_of_the_decoder_is_for_training(kind: str, source: Encoded, draw: Draw, stir: Stir) -> None:
    plain, inputs = stir(decoder_of(kind, LSTM(), 2)), draw(3, 4, EMBEDDING)
    expected, _ = plain(inputs, *plain.start(source))
    for variational in (False, True):
        decoder = stir(decoder_of(kind, LSTM(), 2, dropout=0.5, variational=variational))
        outputs, _ = decoder.eval()(inputs, *decoder.start(source))
        torch.testing.assert_close(outputs, expected, rtol=0, atol=0)
        torch.manual_seed(0)
        dropped, _ = decoder.train()(inputs, *decoder.start(source))
        assert (dropped - outputs).abs().max() > 0.1


@every_decoder
@both_cells
def test_variational_dropout_keeps_one_mask_for_all_steps(
    kind: str, cell: Cell, source: Encoded, draw: Draw, stir: Stir, agree: Agree
) -> None:
    decoder = stir(decoder_of(kind, cell, 3, dropout=0.4, variational=True)).train()
    decoder.dropout = nn.Identity()  # of the outputs, which is drawn for each
    inputs = draw(3, 3, EMBEDDING).requires_grad_()
    torch.manual_seed(0)
    memory, begun = decoder.start(source)
    assert [mask.shape for mask in begun.stack.kept] == [(3, 3, SIZE)] * 2
    assert all((mask == 0).any() and (mask > 0).any() for mask in begun.stack.kept)
    outputs, state = decoder(inputs, memory, begun)
    expected, _ = by_hand(decoder, inputs, source, kept=begun.stack.kept)
    leaves = [inputs, source.states, source.summary, *decoder.parameters()]
    agree(told(outputs, state), expected, leaves, atol=1e-12)
    state, parts = begun, []
    for token in inputs.split(1, 1):
        output, state = decoder(token, memory, state)
        parts.append(output)
    torch.testing.assert_close(torch.cat(parts, 1), outputs, rtol=0, atol=1e-12)


@both_cells
def test_variational_dropout_leaves_states_bounded(cell: Cell) -> None:
    torch.manual_seed(0)
    encoder = RecurrentEncoder(cell, input_size=8, size=8, variational=True, dropout=0.4).double().train()
    encoded = encoder(torch.randn(3, 200, 8).double(), torch.ones(3, 200, dtype=torch.bool))
    assert encoded.states.abs().max() <= 1


@every_decoder
def test_variational_masks_are_drawn_for_each_row_of_each_target(kind: str, stir: Stir, draw: Draw) -> None:
    decoder = decoder_of(kind, LSTM(), 2, dropout=0.4, variational=True).double().train()
    source = Encoded(draw(2000, 1, MEMORY), torch.ones(2000, 1, dtype=torch.bool), draw(2000, MEMORY))
    torch.manual_seed(0)
    masks = [mask for _ in range(2) for mask in decoder.start(source)[1].stack.kept]
    for mask in masks:
        assert mask.unique().tolist() == pytest.approx([0, 1 / 0.6], rel=1e-4)
        assert mask.mean().item() == pytest.approx(1, abs=0.03)
        assert len(mask.flatten(1).unique(dim=0)) == 2**6  # all that rows can be
    for one, mask in enumerate(masks):
        for other in masks[:one]:
            together = ((mask > 0) == (other > 0)).double().mean().item()
            assert together == pytest.approx(0.6**2 + 0.4**2, abs=0.03)  # each on its own
    assert not decoder.eval().start(source)[1].stack.kept
    assert not decoder_of(kind, LSTM(), dropout=0.4).train().double().start(source)[1].stack.kept
    assert not decoder_of(kind, LSTM(), variational=True).train().double().start(source)[1].stack.kept


@both_cells
def test_variational_dropout_of_an_encoder_is_its_formula(
    cell: Cell, draw: Draw, stir: Stir, agree: Agree, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = stir(RecurrentEncoder(cell, input_size=3, size=4, layers=2, variational=True, dropout=0.4))
    drawn: list[Tensor] = []

    def watched(like: Tensor, dropout: float) -> Tensor:
        drawn.append(shared_mask(like, dropout))
        return drawn[-1]

    monkeypatch.setattr(encoder_module, "shared_mask", watched)
    lengths = [4, 2, 1]
    inputs, mask = draw(3, 4, 3).requires_grad_(), torch.arange(4) < torch.tensor(lengths).unsqueeze(1)
    torch.manual_seed(0)
    encoded = encoder.train()(inputs, mask)
    recurrent = {(0, 0): drawn[0], (0, 1): drawn[1], (1, 0): drawn[3], (1, 1): drawn[4]}
    assert [each.shape for each in drawn] == [(3, 2), (3, 2), (3, 1, 4), (3, 2), (3, 2)]
    ours, theirs = [], []
    for row, length in enumerate(lengths):
        states = list(inputs[row, :length])
        for depth in range(2):
            states = [state * drawn[2][row, 0] for state in states] if depth else states
            read = []
            for direction, stacks in enumerate((encoder.forward_layers, encoder.backward_layers)):
                hidden = [torch.zeros((), dtype=torch.float64)] * 2
                memory, told_states = hidden, []
                for state in states[::-1] if direction else states:
                    kept = list(recurrent[depth, direction][row])
                    hidden, memory = cell_by_hand(stacks[depth], list(state), hidden, memory, kept)
                    told_states.append(torch.stack(hidden))
                read.append(told_states[::-1] if direction else told_states)
            states = [torch.cat(pair) for pair in zip(*read, strict=True)]
        ours += [encoded.states[row, :length], encoded.summary[row]]
        theirs += [torch.stack(states), torch.cat([states[-1][:2], states[0][2:]])]
    agree(ours, theirs, [inputs, *encoder.parameters()], atol=1e-12)

    drawn.clear()
    plain = stir(RecurrentEncoder(cell, input_size=3, size=4, layers=2))
    torch.testing.assert_close(encoder.eval()(inputs, mask).states, plain(inputs, mask).states, rtol=0, atol=1e-12)
    assert not drawn


# ------------------------------------------------------------------ bridges


def bridge_of(name: str, layers: int) -> nn.Module:
    return decoder_of(
        "bahdanau", LSTM(), layers, bridge={"name": name}, memory_size=SIZE, attention={"name": "none"}
    ).bridge


@pytest.mark.parametrize("layers", [1, 3])
def test_a_dense_bridge_is_its_formula(layers: int, draw: Draw, stir: Stir, agree: Agree) -> None:
    bridge, summary = stir(bridge_of("dense", layers)), draw(2, SIZE).requires_grad_()
    expected = [
        [
            [each.tanh() for each in times(weight, list(row), bias)]
            for weight, bias in zip(bridge.dense.weight.split(SIZE), bridge.dense.bias.split(SIZE), strict=True)
        ]
        for row in summary
    ]
    agree([bridge(summary)], [torch.stack([stack(row) for row in expected])], [summary, *bridge.parameters()], 1e-12)


@pytest.mark.parametrize("layers", [1, 3])
def test_a_copy_bridge_gives_each_layer_the_summary_and_a_zero_bridge_nothing(layers: int, draw: Draw) -> None:
    summary = draw(2, SIZE)
    copies, zeros = bridge_of("copy", layers)(summary), bridge_of("zero", layers)(summary)
    assert copies.shape == zeros.shape == (2, layers, SIZE)
    assert all(torch.equal(copies[:, depth], summary) for depth in range(layers))
    assert not zeros.any()
    assert zeros.dtype is torch.float64


@every_decoder
@pytest.mark.parametrize("name", ["dense", "copy"])
@pytest.mark.parametrize("half", [0, 1], ids=["forward", "backward"])
def test_a_bridge_keeps_both_directions(kind: str, name: str, half: int, draw: Draw, stir: Stir) -> None:
    decoder = stir(decoder_of(kind, LSTM(), 2, bridge={"name": name}, size=MEMORY))
    mask = torch.ones(2, 3, dtype=torch.bool)
    states, summary, change = draw(2, 3, MEMORY), draw(2, MEMORY), torch.zeros(2, MEMORY).double()
    change.chunk(2, -1)[half].fill_(1)
    first, other = (decoder.start(Encoded(states, mask, each))[1].stack for each in (summary, summary + change))
    assert ((first.hidden - other.hidden).abs().amax(-1) > 1e-3).all()  # in every layer of every row
    assert not first.memory.any()
    assert not other.memory.any()


@pytest.mark.parametrize(
    ("bridge", "message"),
    [
        ({"name": "copy"}, "copy: the encoder's summary has size 4, the decoder 3; make them equal"),
        ({"name": "copi"}, "unknown bridge 'copi'; did you mean 'copy'?"),
        ({"name": "dense", "size": 3}, "dense: 'size' is set by the recipe's other parts"),
    ],
)
def test_a_bridge_that_does_not_fit_is_one_clear_line(bridge: dict[str, Any], message: str) -> None:
    for kind in DECODERS:
        with pytest.raises(UserError) as raised:
            decoder_of(kind, LSTM(), bridge=bridge)
        assert message in str(raised.value)
        assert "\n" not in str(raised.value)


# ------------------------------------------------------------------ mixed precision


@every_decoder
@both_cells
@pytest.mark.parametrize("layers", [1, 2])
def test_it_trains_under_autocast_near_float32(kind: str, cell: Cell, layers: int, draw: Draw, stir: Stir) -> None:
    encoder = stir(RecurrentEncoder(cell, input_size=EMBEDDING, size=MEMORY, layers=layers)).float()
    decoder = stir(decoder_of(kind, cell, layers)).float()
    weights = [*encoder.parameters(), *decoder.parameters()]
    source, target = draw(3, 5, EMBEDDING).float(), draw(3, 6, EMBEDDING).float()
    mask = torch.arange(5) < torch.tensor([[5], [2], [1]])

    def trained() -> tuple[Tensor, Tensor, Tensor]:
        outputs, state = decoder(target, *decoder.start(encoder(source, mask)))
        gradients = torch.autograd.grad(outputs.float().square().sum(), weights)
        return outputs, state.stack.hidden, torch.cat([gradient.flatten() for gradient in gradients])

    expected = trained()
    with torch.autocast("cpu", torch.bfloat16):
        found = trained()
    assert found[0].dtype is torch.bfloat16
    for one, other in zip(found, expected, strict=True):
        assert one.isfinite().all()
        assert (one.float() - other).norm() < 0.03 * other.norm()


@both_cells
def test_without_bfloat16_kernels_the_encoder_reads_in_float32(
    cell: Cell, draw: Draw, stir: Stir, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = stir(RecurrentEncoder(cell, input_size=EMBEDDING, size=MEMORY, layers=2)).float()
    inputs, mask = draw(2, 5, EMBEDDING).float(), torch.ones(2, 5, dtype=torch.bool)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
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
def test_what_adds_up_over_steps_stays_float32_whatever_the_encoder_gives(
    kind: str, cell: Cell, bridge: str, half: bool, variational: bool, source: Encoded, draw: Draw, stir: Stir
) -> None:
    changes = {"bridge": {"name": bridge}, "size": MEMORY, "dropout": 0.1, "variational": variational}
    decoder = stir(decoder_of(kind, cell, 2, **changes)).float().train()
    dtype = torch.bfloat16 if half else torch.float32
    source = Encoded(source.states.to(dtype), source.mask, source.summary.to(dtype))
    inputs = draw(3, 8, EMBEDDING).float()
    with torch.autocast("cpu", torch.bfloat16):
        memory, state = decoder.start(source)
        for step in inputs.split(1, 1):
            outputs, state = decoder(step, memory, state)
            carried = state.stack.memory if cell.name == "lstm" else state.stack.hidden
            assert carried.dtype is torch.float32
            assert outputs.isfinite().all()
