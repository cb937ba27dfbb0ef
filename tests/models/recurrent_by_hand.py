"""Recurrent decoders as loops over single numbers, from the equations of their docstrings."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dialog.config.components import construct
from dialog.models.contracts import Encoded
from dialog.models.recurrent import GRU, LSTM, BahdanauDecoder, LuongDecoder, RecurrentEncoder
from dialog.models.recurrent.cells import RecurrentCell

Draw = Callable[..., Tensor]
Stir = Callable[[nn.Module], nn.Module]
Agree = Callable[..., None]
Vector = list[Tensor]

CELLS: list[RecurrentCell] = [LSTM(), GRU()]
FUSED = {"lstm": nn.LSTM, "gru": nn.GRU}
both_cells = pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
up_to_three_layers = pytest.mark.parametrize("layers", [1, 2, 3])

EMBEDDING, MEMORY, SIZE, KEYS = 3, 4, 3, 2
ADDITIVE = {"name": "additive", "size": KEYS}
DECODERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "bahdanau": (BahdanauDecoder, {}),
    "luong": (LuongDecoder, {"input_feeding": True}),
    "luong without feeding": (LuongDecoder, {"input_feeding": False}),
}
every_decoder = pytest.mark.parametrize("kind", DECODERS)


def encoder_of(cell: RecurrentCell, **arguments: Any) -> RecurrentEncoder:
    return construct(partial(RecurrentEncoder, cell), **arguments)


def decoder_of(kind: str, cell: RecurrentCell, layers: int = 1, **changes: Any) -> nn.Module:
    decoder, arguments = DECODERS[kind]
    sizes = {"input_size": EMBEDDING, "memory_size": MEMORY, "size": SIZE}
    options = {"layers": layers, **sizes, "attention": ADDITIVE, **arguments, **changes}
    return construct(partial(decoder, cell), **options)


def dot(one: Vector, other: Vector) -> Tensor:
    return sum(
        (a * b for a, b in zip(one, other, strict=True)), start=torch.zeros((), dtype=torch.float64)
    )


def times(weight: Tensor, vector: Vector, bias: Tensor | None = None) -> Vector:
    products = [dot(list(row), vector) for row in weight]
    return products if bias is None else [p + b for p, b in zip(products, bias, strict=True)]


def align(decoder: nn.Module, query: Vector, sources: list[Vector]) -> tuple[Vector, Vector]:
    """Weights alpha_j = softmax_j v . tanh(W q + U h_j), and context c = sum_j alpha_j h_j."""
    scorer = decoder.attention.scorer
    projected = times(scorer.query.weight, query)
    energies = []
    for source in sources:
        mixed = [
            (a + b).tanh() for a, b in zip(projected, times(scorer.key.weight, source), strict=True)
        ]
        energies.append(dot(list(scorer.energy.weight[0]), mixed).exp())
    weights = [energy / sum(energies) for energy in energies]
    return weights, [
        dot(weights, [source[i] for source in sources]) for i in range(len(sources[0]))
    ]


def cell_by_hand(
    layer: nn.Module, entering: Vector, hidden: Vector, state: Vector, mask: Vector
) -> tuple[Vector, Vector]:
    """Gers et al. 2000, gates in the order input, forget, cell, output; Cho et al. 2014, gates
    reset, update, new.

    The dropout mask applies to the products of the state only: a GRU's leak would grow by 1 / (1 -
    p) at each step.
    """
    x = times(layer.weight_ih_l0, entering, layer.bias_ih_l0)
    h = times(
        layer.weight_hh_l0, [a * b for a, b in zip(hidden, mask, strict=True)], layer.bias_hh_l0
    )
    d = len(hidden)
    if isinstance(layer, nn.LSTM):
        gates = [a + b for a, b in zip(x, h, strict=True)]
        state = [
            gates[d + i].sigmoid() * state[i] + gates[i].sigmoid() * gates[2 * d + i].tanh()
            for i in range(d)
        ]
        return [gates[3 * d + i].sigmoid() * state[i].tanh() for i in range(d)], state
    reset, update = ([(x[k * d + i] + h[k * d + i]).sigmoid() for i in range(d)] for k in range(2))
    new = [(x[2 * d + i] + reset[i] * h[2 * d + i]).tanh() for i in range(d)]
    return [(1 - update[i]) * new[i] + update[i] * hidden[i] for i in range(d)], []


class StackByHand:
    """Layers of cells for one row, with masks [2][L][D] of the recurrent states and of the inputs
    from below.
    """

    def __init__(self, layers: nn.ModuleList, first: list[Vector], masks: list[Tensor]) -> None:
        self.layers, self.hidden = layers, first
        zero = torch.zeros((), dtype=torch.float64)
        self.states = [[zero] * SIZE if isinstance(layer, nn.LSTM) else [] for layer in layers]
        self.recurrent, self.upward = (
            masks or [torch.ones(len(layers), SIZE, dtype=torch.float64)] * 2
        )

    def step(self, entering: Vector) -> None:
        for depth, layer in enumerate(self.layers):
            if depth:
                entering = [a * b for a, b in zip(entering, self.upward[depth], strict=True)]
            mask = list(self.recurrent[depth])
            self.hidden[depth], self.states[depth] = cell_by_hand(
                layer, entering, self.hidden[depth], self.states[depth], mask
            )
            entering = self.hidden[depth]


Outputs = tuple[list[Vector], list[Vector]]
"""The outputs and weights of each step."""


def bahdanau_by_hand(
    decoder: nn.Module, layers: StackByHand, tokens: Tensor, sources: list[Vector], mistake: str
) -> Outputs:
    outputs, shown = [], []
    weights, context = align(decoder, layers.hidden[-1], sources)
    for token in tokens:
        if mistake != "queries with the other state":
            weights, context = align(decoder, layers.hidden[-1], sources)
        layers.step([*token, *context])
        if mistake == "queries with the other state":
            weights, context = align(decoder, layers.hidden[-1], sources)
        pairs = times(
            decoder.readout.weight, [*layers.hidden[-1], *token, *context], decoder.readout.bias
        )
        outputs.append([torch.maximum(pairs[2 * i], pairs[2 * i + 1]) for i in range(EMBEDDING)])
        shown.append(weights)
    return outputs, shown


def luong_by_hand(
    decoder: nn.Module, layers: StackByHand, tokens: Tensor, sources: list[Vector], mistake: str
) -> Outputs:
    outputs, shown = [], []
    fed = [torch.zeros((), dtype=torch.float64)] * EMBEDDING
    for token in tokens:
        before = layers.hidden[-1]
        layers.step([*token, *fed] if decoder.input_feeding else [*token])
        top = layers.hidden[-1]
        weights, context = align(
            decoder, before if mistake == "queries with the other state" else top, sources
        )
        outputs.append(
            [each.tanh() for each in times(decoder.attentional.weight, [*context, *top])]
        )
        fed = top if mistake == "feeds the state" else outputs[-1]
        shown.append(weights)
    return outputs, shown


def by_hand(
    decoder: nn.Module,
    inputs: Tensor,
    encoded: Encoded,
    masks: tuple[Tensor, ...] = (),
    mistake: str = "",
) -> tuple[list[Tensor], list[Tensor]]:
    """Return outputs [B, T, E], hidden and cell states [B, L, D], and weights [B][T, S]."""
    decode = bahdanau_by_hand if isinstance(decoder, BahdanauDecoder) else luong_by_hand
    rows, shown = [], []
    for row, length in enumerate(encoded.mask.sum(1).tolist()):
        dense = decoder.bridge.dense
        first = [
            each.tanh() for each in times(dense.weight, list(encoded.summary[row]), dense.bias)
        ]
        hidden = [first[begin : begin + SIZE] for begin in range(0, len(first), SIZE)]
        layers = StackByHand(decoder.stack.layers, hidden, [mask[row] for mask in masks])
        if mistake == "begins with the cell":
            layers.hidden, layers.states = layers.states, layers.hidden
        sources = [list(state) for state in encoded.states[row, :length]]
        outputs, weights = decode(decoder, layers, inputs[row], sources, mistake)
        cell = [layers.states] if layers.states[0] else []
        rows.append([stack(each) for each in (outputs, layers.hidden, *cell)])
        shown.append(stack(weights))
    return [torch.stack(each) for each in zip(*rows, strict=True)], shown


def stack(vectors: list[Vector]) -> Tensor:
    return torch.stack([torch.stack(vector) for vector in vectors])


def results(outputs: Tensor, state: Any) -> list[Tensor]:
    cell = [state.stack.cell_state] if state.stack.cell_state.shape[2] else []
    return [outputs, state.stack.hidden, *cell]
