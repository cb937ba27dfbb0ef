"""Recurrent cells and their settings.

A cell is split so that work that does not depend on the previous step can leave the loop.

Shapes: B rows, T steps, I input width, D hidden width, C cell state width (D for an LSTM, 0 for a
    GRU).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.models.kernels.private_operators import lstm

ORTHOGONAL = "orthogonal"
UNIFORM = "uniform"
CLOSED = -1e4
"""Preactivation of a gate whose sigmoid is exactly 0."""
LAYER_WEIGHTS = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")


@dataclass(frozen=True, kw_only=True)
class RecurrentSettings:
    """Sizes and dropout of recurrent layers.

    Dropout is applied between layers. ``variational`` keeps one mask for all steps and applies one
    to the recurrent states too (Gal & Ghahramani 2016); it has no effect if dropout is 0.
    ``initialisation``: ``orthogonal`` (orthogonal recurrent weights, Xavier input weights, biases
    0, but 1 for forget gates) or ``uniform`` (torch's default: all weights and biases uniform in
    +-1/sqrt(size)).
    """

    input_size: int
    size: int
    layers: int = 1
    variational: bool = False
    dropout: float = 0.0
    initialisation: str = ORTHOGONAL

    def __post_init__(self) -> None:
        """Raise ValueError for an impossible value."""
        if self.layers < 1:
            raise ValueError(f"layers must be at least 1, not {self.layers}")
        if self.initialisation not in (ORTHOGONAL, UNIFORM):
            raise ValueError(
                f"initialisation must be {ORTHOGONAL} or {UNIFORM}, not {self.initialisation!r}"
            )


class RecurrentCell(ABC):
    """Cell whose step is a function of four blocks of preactivations, gates [B, 4 D]: sums of W x
    and U h.

    The parameters are those of torch's fused layer, which computes the same for a whole sequence.
    """

    name: str

    @abstractmethod
    def layer(self, inputs: int, size: int, initialisation: str = ORTHOGONAL) -> nn.RNNBase:
        """Return one fused layer with weights initialised as `RecurrentSettings.initialisation`
        states.
        """

    @abstractmethod
    def first_state(self, hidden: Tensor) -> Tensor:
        """Return the cell state [B, C] before the first step, for a hidden state [B, D]."""

    @abstractmethod
    def from_inputs(self, blocks: Tensor, dim: int = 0) -> Tensor:
        """Arrange a fused layer's weight_ih, bias_ih or, with ``dim`` -1, their products as the
        four blocks, 4 D.
        """

    @abstractmethod
    def from_hidden(self, blocks: Tensor, dim: int = 0) -> Tensor:
        """Arrange a fused layer's weight_hh, bias_hh or, with ``dim`` -1, their products as the
        four blocks, 4 D.
        """

    @abstractmethod
    def step(self, gates: Tensor, hidden: Tensor, cell_state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the new hidden and cell state for gates [B, 4 D], hidden [B, D] and cell state
        [B, C].
        """

    @abstractmethod
    def backward(
        self, gates: Tensor, hidden: Tensor, cell_state: Tensor, of_hidden: Tensor, of_cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of a step's three inputs from those of its outputs."""

    @abstractmethod
    def fused(
        self, layer: nn.RNNBase, inputs: Tensor, hidden: Tensor, cell_state: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run a sequence [B, T, I] in one call: outputs [B, T, D], and the last hidden [B, D] and
        cell state [B, C].
        """

    @abstractmethod
    def final(
        self, layer: nn.RNNBase, inputs: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run right-padded inputs [B, S, I] from zeros; the states are those after the last real
        token of each row.
        """


class LSTM(RecurrentCell):
    """c' = f * c + i * g, h' = o * tanh(c'), with i, f, o = sigmoid, g = tanh of the gates; Gers
    et al. 2000.

    The cell state keeps its own precision (float32 under autocast), because it accumulates over all
    steps.
    """

    name = "lstm"

    def layer(self, inputs: int, size: int, initialisation: str = ORTHOGONAL) -> nn.RNNBase:
        """Return a layer; unless it is uniform, forget gates start open: bias 1 (Jozefowicz
        et al. 2015).
        """
        layer = nn.LSTM(inputs, size, batch_first=True)
        if initialisation == UNIFORM:
            return layer
        initialise(layer, gates=4)
        forget = layer.get_parameter("bias_ih_l0")[size : 2 * size]
        nn.init.ones_(forget)  # gates in torch's order: input, forget, cell, output
        return layer

    def first_state(self, hidden: Tensor) -> Tensor:
        """Zeros [B, D]."""
        return torch.zeros_like(hidden)

    def from_inputs(self, blocks: Tensor, dim: int = 0) -> Tensor:
        """The four gates in torch's order."""
        return blocks

    def from_hidden(self, blocks: Tensor, dim: int = 0) -> Tensor:
        """The four gates in torch's order."""
        return blocks

    def step(self, gates: Tensor, hidden: Tensor, cell_state: Tensor) -> tuple[Tensor, Tensor]:
        """New hidden and cell state [B, D]."""
        take, keep, new, out = gates.chunk(4, -1)
        cell_state = keep.sigmoid() * cell_state + take.sigmoid() * new.tanh()  # [B, D]
        return out.sigmoid() * cell_state.tanh(), cell_state

    def backward(
        self, gates: Tensor, hidden: Tensor, cell_state: Tensor, of_hidden: Tensor, of_cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Gradient 0 for the hidden state, which enters through the gates only."""
        take, keep, new, out = gates.chunk(4, -1)
        take = take.sigmoid()
        keep = keep.sigmoid()
        new = new.tanh()
        out = out.sigmoid()
        squashed = (keep * cell_state + take * new).tanh()  # [B, D]
        of_cell = of_cell + of_hidden * out * (1 - squashed * squashed)
        of_gates = [
            of_cell * new * take * (1 - take),
            of_cell * cell_state * keep * (1 - keep),
            of_cell * take * (1 - new * new),
            of_hidden * squashed * out * (1 - out),
        ]
        return torch.cat(of_gates, -1), torch.zeros_like(hidden), of_cell * keep

    def fused(
        self, layer: nn.RNNBase, inputs: Tensor, hidden: Tensor, cell_state: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Torch's LSTM."""
        outputs, (last, cell) = layer(
            inputs, (hidden.unsqueeze(0).contiguous(), cell_state.unsqueeze(0).contiguous())
        )
        return outputs, last.squeeze(0), cell.squeeze(0)

    def final(
        self, layer: nn.RNNBase, inputs: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run the rows right-aligned, which keeps the fused kernel; packing is six times slower on
        a CPU.

        A further input closes the input gate at padding, so the state stays exactly zero until the
        first token.
        """
        steps = mask.shape[1]
        # [B, 1], [S]
        lengths = mask.sum(1, keepdim=True)
        places = torch.arange(steps, device=mask.device)
        aligned = take_steps(inputs, (places + lengths) % steps)  # [B, S, I]
        padding = (places < steps - lengths).unsqueeze(-1)  # [B, S, 1]
        weights: list[Tensor] = [getattr(layer, name) for name in LAYER_WEIGHTS]
        closing = weights[0].new_zeros(4 * layer.hidden_size, 1)
        closing[: layer.hidden_size] = CLOSED
        weights[0] = torch.cat([weights[0], closing], 1)  # [4 D, I + 1]
        inputs = torch.cat([aligned, padding.to(aligned.dtype)], -1)
        outputs, last, cell = lstm(inputs, weights, training=layer.training)
        return take_steps(outputs, (places - lengths) % steps), last, cell


class GRU(RecurrentCell):
    """h' = (1 - z) * tanh(W x + r * U h) + z * h, with r, z = sigmoid; Cho et al. 2014, in torch's
    form.

    r multiplies U h alone, so the blocks are r, z, W x and U h.
    """

    name = "gru"

    def layer(self, inputs: int, size: int, initialisation: str = ORTHOGONAL) -> nn.RNNBase:
        """Return a layer; unless it is uniform, all biases are 0."""
        layer = nn.GRU(inputs, size, batch_first=True)
        if initialisation != UNIFORM:
            initialise(layer, gates=3)
        return layer

    def first_state(self, hidden: Tensor) -> Tensor:
        """Empty [B, 0]."""
        return hidden[:, :0]

    def from_inputs(self, blocks: Tensor, dim: int = 0) -> Tensor:
        """Blocks r, z, W x, 0."""
        return torch.cat([blocks, torch.zeros_like(blocks.chunk(3, dim)[0])], dim)

    def from_hidden(self, blocks: Tensor, dim: int = 0) -> Tensor:
        """Blocks r, z, 0, U h."""
        reset, update, new = blocks.chunk(3, dim)
        return torch.cat([reset, update, torch.zeros_like(new), new], dim)

    def step(self, gates: Tensor, hidden: Tensor, cell_state: Tensor) -> tuple[Tensor, Tensor]:
        """New hidden state [B, D]; the cell state is empty."""
        reset, update, entering, recurrent = gates.chunk(4, -1)
        new = torch.tanh(entering + reset.sigmoid() * recurrent)  # [B, D]
        update = update.sigmoid()
        return (1 - update) * new + update * hidden, cell_state

    def backward(
        self, gates: Tensor, hidden: Tensor, cell_state: Tensor, of_hidden: Tensor, of_cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradient of the empty cell state as it is."""
        reset, update, entering, recurrent = gates.chunk(4, -1)
        reset = reset.sigmoid()
        update = update.sigmoid()
        new = torch.tanh(entering + reset * recurrent)  # [B, D]
        of_update = of_hidden * (hidden - new) * update * (1 - update)
        of_entering = of_hidden * (1 - update) * (1 - new * new)
        of_reset = of_entering * recurrent * reset * (1 - reset)
        of_gates = torch.cat([of_reset, of_update, of_entering, of_entering * reset], -1)
        return of_gates, of_hidden * update, of_cell

    def fused(
        self, layer: nn.RNNBase, inputs: Tensor, hidden: Tensor, cell_state: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Torch's GRU."""
        outputs, last = layer(inputs, hidden.unsqueeze(0).contiguous())
        return outputs, last.squeeze(0), cell_state

    def final(
        self, layer: nn.RNNBase, inputs: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Select the outputs at the last real tokens."""
        zeros = inputs.new_zeros(len(inputs), layer.hidden_size)
        outputs, _, cell_state = self.fused(layer, inputs, zeros, self.first_state(zeros))
        last = (mask.sum(1, keepdim=True) - 1).clamp(min=0)  # [B, 1]
        return outputs, take_steps(outputs, last).squeeze(1) * mask.any(1, keepdim=True), cell_state


def initialise(layer: nn.Module, gates: int) -> None:
    """Initialise input weights by Xavier, each gate's recurrent weights as orthogonal, biases
    as 0.
    """
    for name, parameter in layer.named_parameters():
        if parameter.dim() < 2:
            nn.init.zeros_(parameter)
        elif name.startswith("weight_hh"):
            for gate in parameter.chunk(gates):
                nn.init.orthogonal_(gate)
        else:
            nn.init.xavier_uniform_(parameter)


def take_steps(states: Tensor, steps: Tensor) -> Tensor:
    """Select states [B, S, D] at the steps [B, N] -> [B, N, D]."""
    # [B, 1]
    starts = torch.arange(len(states), device=states.device).unsqueeze(1) * states.shape[1]
    # `gather` copies number by number
    taken = states.flatten(0, 1).index_select(0, (starts + steps).flatten())
    return taken.view(*steps.shape, states.shape[-1])


def shared_mask(like: Tensor, dropout: float) -> Tensor:
    """Draw a dropout mask of a tensor's shape, for all steps of a sequence: 0, or 1 / (1 -
    dropout).
    """
    return F.dropout(torch.ones_like(like), dropout)
