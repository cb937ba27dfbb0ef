"""The LSTM encoder against torch's, the decoder against a loop over single numbers, in float64."""

from collections.abc import Callable
from typing import Literal

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from dialog.models.contracts import Encoded
from dialog.models.lstm import LSTMDecoder, LSTMEncoder, initialise, lstm_step

Stir = Callable[[nn.Module], nn.Module]

# ------------------------------------------------------------------ encoder


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("bidirectional", [True, False], ids=["both ways", "one way"])
def test_encoder_agrees_with_torch_on_packed_sequences(
    layers: int, bidirectional: bool, draw: Callable[..., Tensor], stir: Stir, agree: Callable[..., None]
) -> None:
    size, total = 6, 7
    ours = stir(LSTMEncoder(input_size=5, size=size, layers=layers, bidirectional=bidirectional))
    width = size // 2 if bidirectional else size
    theirs = nn.LSTM(5, width, layers, bidirectional=bidirectional, batch_first=True).double()
    directions = [("", ours.forward_layers), ("_reverse", ours.backward_layers)]
    named = {
        name.replace("_l0", f"_l{depth}") + suffix: parameter
        for suffix, stack in directions
        for depth, layer in enumerate(stack)
        for name, parameter in layer.named_parameters()
    }
    assert named.keys() == dict(theirs.named_parameters()).keys()
    lengths = torch.tensor([3, 5, 1, 4])  # none as long as the batch, not sorted
    mask = torch.arange(total) < lengths.unsqueeze(1)
    inputs = draw(4, total, 5).requires_grad_()  # not 0 at padding

    encoded = ours(inputs, mask)
    packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
    read, (ends, _) = torch.func.functional_call(theirs, named, (packed,))
    states, _ = pad_packed_sequence(read, batch_first=True, total_length=total)
    summary = torch.cat([ends[-2], ends[-1]], -1) if bidirectional else ends[-1]

    assert encoded.states.shape == (4, total, size)
    assert torch.equal(encoded.mask, mask)
    agree([encoded.states, encoded.summary], [states, summary], [inputs, *ours.parameters()])


def test_encoder_of_an_odd_size_cannot_read_both_ways() -> None:
    with pytest.raises(ValueError, match="must be even"):
        LSTMEncoder(input_size=4, size=5)
    assert LSTMEncoder(input_size=4, size=5, bidirectional=False).size == 5


@pytest.mark.parametrize("make", [lambda: nn.LSTMCell(3, 4), lambda: nn.LSTM(3, 4)])
def test_forget_gates_begin_open(make: Callable[[], nn.Module]) -> None:
    module = make()
    initialise(module)
    biases = [parameter for name, parameter in module.named_parameters() if name.startswith("bias")]
    assert sum(biases).tolist() == [0.0] * 4 + [1.0] * 4 + [0.0] * 8
    (recurrent,) = (weight for name, weight in module.named_parameters() if name.startswith("weight_hh"))
    for gate in recurrent.chunk(4):
        torch.testing.assert_close(gate @ gate.T, torch.eye(4))


def test_every_recurrence_begins_so() -> None:
    encoder = LSTMEncoder(input_size=4, size=6, layers=2)
    decoder = decoder_of(layers=2)
    recurrences = [*encoder.forward_layers, *encoder.backward_layers, *decoder.cells]
    assert len(recurrences) == 6
    for module in recurrences:
        bias = sum(parameter for name, parameter in module.named_parameters() if name.startswith("bias"))
        assert [gate.unique().tolist() for gate in bias.chunk(4)] == [[0.0], [1.0], [0.0], [0.0]]


# ------------------------------------------------------------------ decoder

EMBEDDING, MEMORY, SIZE, KEYS = 3, 4, 3, 2
Vector = list[Tensor]


def decoder_of(layers: int = 1, dropout: float = 0.0) -> LSTMDecoder:
    return LSTMDecoder(
        input_size=EMBEDDING,
        memory_size=MEMORY,
        size=SIZE,
        layers=layers,
        attention={"name": "additive", "size": KEYS},
        dropout=dropout,
    )


def dot(one: Vector, other: Vector) -> Tensor:
    assert len(one) == len(other)
    total = one[0] * other[0]
    for a, b in zip(one[1:], other[1:], strict=True):
        total = total + a * b
    return total


def times(weight: Tensor, vector: Vector, bias: Tensor | None = None) -> Vector:
    products = [dot(list(row), vector) for row in weight]
    return products if bias is None else [p + b for p, b in zip(products, bias, strict=True)]


def align(decoder: LSTMDecoder, query: Vector, sources: list[Vector]) -> tuple[Vector, Vector]:
    """Weights alpha_j = softmax_j v . tanh(W q + U h_j), and context c = sum_j alpha_j h_j."""
    scorer = decoder.attention.scorer
    asked = times(scorer.query.weight, query)
    energies = []
    for source in sources:
        mixed = [(a + b).tanh() for a, b in zip(asked, times(scorer.key.weight, source), strict=True)]
        energies.append(dot(list(scorer.energy.weight[0]), mixed).exp())
    weights = [energy / sum(energies) for energy in energies]
    return weights, [dot(weights, [source[i] for source in sources]) for i in range(len(sources[0]))]


def cell_step(cell: nn.Module, entering: Vector, hidden: Vector, memory: Vector) -> tuple[Vector, Vector]:
    """Hochreiter & Schmidhuber's cell, with the gates in the order input, forget, cell, output."""
    gates = [
        a + b
        for a, b in zip(
            times(cell.weight_ih, entering, cell.bias_ih), times(cell.weight_hh, hidden, cell.bias_hh), strict=True
        )
    ]
    d = len(hidden)
    memory = [gates[d + i].sigmoid() * memory[i] + gates[i].sigmoid() * gates[2 * d + i].tanh() for i in range(d)]
    return [gates[3 * d + i].sigmoid() * memory[i].tanh() for i in range(d)], memory


Order = Literal["before", "after"]


def by_hand(
    decoder: LSTMDecoder, inputs: Tensor, encoded: Encoded, ask: Order = "before"
) -> tuple[Tensor, Tensor, Tensor, list[list[Vector]]]:
    """Outputs [B, T, E], hidden and cell [B, L, D] and weights [B][T][S] of the docstring's equations, row by row.

    ``ask="after"`` is the mistake of asking with s_i: the context of the step before enters the cell.
    """
    rows, all_weights = [], []
    for row, length in enumerate(encoded.mask.sum(1).tolist()):
        sources = [list(state) for state in encoded.states[row, :length]]
        first = [each.tanh() for each in times(decoder.bridge.weight, list(encoded.summary[row]), decoder.bridge.bias)]
        hidden = [first[depth * SIZE : (depth + 1) * SIZE] for depth in range(len(decoder.cells))]
        memory = [[torch.zeros((), dtype=torch.float64)] * SIZE for _ in decoder.cells]
        weights, context = align(decoder, hidden[-1], sources)
        outputs, shown = [], []
        for token in inputs[row]:
            if ask == "before":
                weights, context = align(decoder, hidden[-1], sources)
            entering = [*token, *context]
            for depth, cell in enumerate(decoder.cells):
                hidden[depth], memory[depth] = cell_step(cell, entering, hidden[depth], memory[depth])
                entering = hidden[depth]
            if ask == "after":
                weights, context = align(decoder, hidden[-1], sources)
            pairs = times(decoder.readout.weight, [*hidden[-1], *token, *context], decoder.readout.bias)
            outputs.append([torch.maximum(pairs[2 * i], pairs[2 * i + 1]) for i in range(EMBEDDING)])
            shown.append(weights)
        rows.append([stack(outputs), stack(hidden), stack(memory)])
        all_weights.append(shown)
    outputs, hidden, memory = (torch.stack(each) for each in zip(*rows, strict=True))
    return outputs, hidden, memory, all_weights


def stack(vectors: list[Vector]) -> Tensor:
    return torch.stack([torch.stack(vector) for vector in vectors])


@pytest.fixture
def source(draw: Callable[..., Tensor]) -> Encoded:
    """A source whose states at padding are not 0, so that a decoder that looks there is found out."""
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]]).bool()
    return Encoded(draw(3, 4, MEMORY).requires_grad_(), mask, draw(3, MEMORY).requires_grad_())


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_decoder_is_the_equations_of_its_docstring(
    layers: int, source: Encoded, draw: Callable[..., Tensor], stir: Stir, agree: Callable[..., None]
) -> None:
    decoder = stir(decoder_of(layers))
    inputs = draw(3, 4, EMBEDDING).requires_grad_()
    shown: list[tuple[nn.Module, Tensor]] = []
    outputs, state = decoder(inputs, *decoder.start(source), lambda module, weights: shown.append((module, weights)))
    *expected, weights = by_hand(decoder, inputs, source)
    leaves = [inputs, source.states, source.summary, *decoder.parameters()]
    agree([outputs, state.hidden, state.cell], expected, leaves, atol=1e-12)
    ((module, seen),) = shown
    assert module is decoder.attention
    assert seen.shape == (3, 1, 4, 4)
    for row, length in enumerate([4, 2, 1]):
        torch.testing.assert_close(seen[row, 0, :, :length], stack(weights[row]), rtol=0, atol=1e-12)
        assert not seen[row, :, :, length:].any()


def test_the_reference_tells_the_state_before_from_the_state_after(
    source: Encoded, draw: Callable[..., Tensor], stir: Stir
) -> None:
    decoder, inputs = stir(decoder_of()), draw(3, 4, EMBEDDING)
    outputs, _ = decoder(inputs, *decoder.start(source))
    assert (outputs - by_hand(decoder, inputs, source, ask="after")[0]).abs().max() > 1e-3


def test_a_step_of_the_cell_is_torchs(draw: Callable[..., Tensor], stir: Stir) -> None:
    cell = stir(nn.LSTMCell(3, 4))
    inputs, hidden, memory = draw(2, 3), draw(2, 4), draw(2, 4)
    gates = F.linear(inputs, cell.weight_ih, cell.bias_ih) + F.linear(hidden, cell.weight_hh, cell.bias_hh)
    torch.testing.assert_close(lstm_step(gates, memory), cell(inputs, (hidden, memory)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("layers", [1, 2])
def test_the_loop_does_only_what_needs_the_step_before(
    layers: int, source: Encoded, draw: Callable[..., Tensor], stir: Stir, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder, steps = stir(decoder_of(layers)), 5
    projected, products = [], []
    linear = F.linear
    decoder.attention.scorer.key.register_forward_hook(lambda *_: projected.append(1))

    def counted(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        products.append((tuple(inputs.shape[:-1]), tuple(weight.shape)))
        return linear(inputs, weight, bias)

    monkeypatch.setattr(F, "linear", counted)
    memory, state = decoder.start(source)
    assert len(projected) == 1
    products.clear()
    _, state = decoder(draw(3, steps, EMBEDDING), memory, state)
    decoder(draw(3, 1, EMBEDDING), memory, state)
    assert len(projected) == 1
    token_gates = ((3, steps), (4 * SIZE, EMBEDDING))
    readout = ((3, steps), (2 * EMBEDDING, SIZE + EMBEDDING + MEMORY))
    in_a_step = [
        ((3, 1), (KEYS, SIZE)),  # the query
        ((3, 1, 4), (1, KEYS)),  # the energies
        ((3,), (4 * SIZE, MEMORY + SIZE)),  # the bottom cell, without the token's share
        *[((3,), (4 * SIZE, 2 * SIZE))] * (layers - 1),
    ]
    first = products[: 2 + steps * len(in_a_step)]
    assert first == [token_gates, *in_a_step * steps, readout]
    assert len(products) - len(first) == 2 + len(in_a_step)


def test_dropout_of_the_decoder_is_for_training(source: Encoded, draw: Callable[..., Tensor], stir: Stir) -> None:
    decoder, inputs = stir(decoder_of(2, dropout=0.5)), draw(3, 4, EMBEDDING)
    plain = stir(decoder_of(2))
    outputs, _ = decoder.eval()(inputs, *decoder.start(source))
    torch.testing.assert_close(outputs, plain(inputs, *plain.start(source))[0], rtol=0, atol=0)
    torch.manual_seed(0)
    dropped, _ = decoder.train()(inputs, *decoder.start(source))
    assert (dropped - outputs).abs().max() > 0.1


# ------------------------------------------------------------------ mixed precision


@pytest.mark.parametrize("layers", [1, 2])
def test_it_trains_under_autocast_near_float32(layers: int, draw: Callable[..., Tensor], stir: Stir) -> None:
    encoder = stir(LSTMEncoder(input_size=EMBEDDING, size=MEMORY, layers=layers)).float()
    decoder = stir(decoder_of(layers)).float()
    weights = [*encoder.parameters(), *decoder.parameters()]
    source, target = draw(3, 5, EMBEDDING).float(), draw(3, 6, EMBEDDING).float()
    mask = torch.arange(5) < torch.tensor([[5], [2], [1]])

    def run() -> tuple[Tensor, Tensor, Tensor]:
        outputs, state = decoder(target, *decoder.start(encoder(source, mask)))
        gradients = torch.autograd.grad(outputs.float().square().sum(), weights)
        return outputs, state.cell, torch.cat([gradient.flatten() for gradient in gradients])

    expected = run()
    with torch.autocast("cpu", torch.bfloat16):
        found = run()
    assert [each.dtype for each in found] == [torch.bfloat16, torch.float32, torch.float32]
    for one, other in zip(found, expected, strict=True):
        assert one.isfinite().all()
        assert (one.float() - other).norm() < 0.03 * other.norm()


def test_without_bfloat16_kernels_the_encoder_reads_in_float32(
    draw: Callable[..., Tensor], stir: Stir, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = stir(LSTMEncoder(input_size=EMBEDDING, size=MEMORY, layers=2)).float()
    inputs, mask = draw(2, 5, EMBEDDING).float(), torch.ones(2, 5, dtype=torch.bool)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    with torch.autocast("cpu", torch.bfloat16):
        encoded = encoder(inputs, mask)
        half = encoder(inputs.bfloat16(), mask)
    assert torch.equal(encoded.states, encoder(inputs, mask).states)
    assert half.states.dtype is torch.float32
    torch.testing.assert_close(half.states, encoded.states, rtol=0, atol=0.02)


@pytest.mark.parametrize("layers", [1, 2])
def test_the_cell_stays_float32_through_many_steps(
    layers: int, source: Encoded, draw: Callable[..., Tensor], stir: Stir
) -> None:
    decoder = stir(decoder_of(layers)).float()
    source = Encoded(source.states.float(), source.mask, source.summary.float())
    inputs = draw(3, 8, EMBEDDING).float()
    with torch.autocast("cpu", torch.bfloat16):
        memory, state = decoder.start(source)
        for step in inputs.split(1, 1):
            assert state.cell.dtype is torch.float32
            _, state = decoder(step, memory, state)
    assert state.cell.dtype is torch.float32
