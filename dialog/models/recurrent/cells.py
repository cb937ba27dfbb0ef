"""Recurrent cells, opened so that what does not need the step before can be taken out of the loop.

Shapes: B rows, T steps, I input width, D hidden width, C cell width (D for an LSTM, 0 for a GRU).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.models.dropout import drop


class Cell(ABC):
    """A cell whose step is a function of four blocks of preactivations, gates [B, 4 D]: sums of W x and U h.

    The parameters are those of torch's fused layer, which does the same for a whole sequence.
    """

    name: str

    @abstractmethod
    def layer(self, inputs: int, size: int) -> nn.RNNBase:
        """One fused layer, its weights drawn."""

    @abstractmethod
    def memory(self, hidden: Tensor) -> Tensor:
        """The cell [B, C] before the first step, for a hidden state [B, D]."""

    @abstractmethod
    def from_inputs(self, weight: Tensor) -> Tensor:
        """Rows of a fused layer's weight_ih or bias_ih -> rows of the blocks [4 D, ..]."""

    @abstractmethod
    def from_hidden(self, weight: Tensor) -> Tensor:
        """Rows of a fused layer's weight_hh or bias_hh -> rows of the blocks [4 D, ..]."""

    @abstractmethod
    def step(self, gates: Tensor, hidden: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Gates [B, 4 D], hidden [B, D] and cell [B, C] -> new hidden and cell."""

    @abstractmethod
    def back(
        self, gates: Tensor, hidden: Tensor, memory: Tensor, of_hidden: Tensor, of_memory: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """From what a step was given, and the slopes of what it gave, to the slopes of what it was given."""

    @abstractmethod
    def fused(self, layer: nn.RNNBase, inputs: Tensor, hidden: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs [B, T, I] -> outputs [B, T, D], hidden [B, D] and cell [B, C] after them, in one call."""


class LSTM(Cell):
    """c' = f * c + i * g, h' = o * tanh(c'), with i, f, o = sigmoid, g = tanh of the gates; Gers et al. 2000.

    The cell stays in its own precision (float32 under autocast), as it adds up over all steps.
    """

    name = "lstm"

    def layer(self, inputs: int, size: int) -> nn.RNNBase:
        """Forget gates begin open: bias 1 (Jozefowicz et al. 2015)."""
        layer = nn.LSTM(inputs, size, batch_first=True)
        initialise(layer, gates=4)
        forget = layer.get_parameter("bias_ih_l0")[size : 2 * size]
        nn.init.ones_(forget)  # gates in torch's order: input, forget, cell, output
        return layer

    def memory(self, hidden: Tensor) -> Tensor:
        """Zeros [B, D]."""
        return torch.zeros_like(hidden)

    def from_inputs(self, weight: Tensor) -> Tensor:
        """The four gates as they are."""
        return weight

    def from_hidden(self, weight: Tensor) -> Tensor:
        """The four gates as they are."""
        return weight

    def step(self, gates: Tensor, hidden: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """New hidden and cell [B, D]."""
        take, keep, new, out = gates.chunk(4, -1)
        memory = keep.sigmoid() * memory + take.sigmoid() * new.tanh()  # [B, D]
        return out.sigmoid() * memory.tanh(), memory

    def back(
        self, gates: Tensor, hidden: Tensor, memory: Tensor, of_hidden: Tensor, of_memory: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The hidden state is in the gates alone: its own slope is 0."""
        take, keep, new, out = gates.chunk(4, -1)
        take, keep, new, out = take.sigmoid(), keep.sigmoid(), new.tanh(), out.sigmoid()
        told = (keep * memory + take * new).tanh()  # [B, D]
        of_memory = of_memory + of_hidden * out * (1 - told * told)
        of_gates = [
            of_memory * new * take * (1 - take),
            of_memory * memory * keep * (1 - keep),
            of_memory * take * (1 - new * new),
            of_hidden * told * out * (1 - out),
        ]
        return torch.cat(of_gates, -1), torch.zeros_like(hidden), of_memory * keep

    def fused(self, layer: nn.RNNBase, inputs: Tensor, hidden: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Torch's LSTM."""
        outputs, (last, cell) = layer(inputs, (hidden.unsqueeze(0).contiguous(), memory.unsqueeze(0).contiguous()))
        return outputs, last.squeeze(0), cell.squeeze(0)


class GRU(Cell):
    """h' = (1 - z) * tanh(W x + r * U h) + z * h, with r, z = sigmoid; Cho et al. 2014, in torch's form.

    As r multiplies U h alone, its blocks are r, z, W x and U h.
    """

    name = "gru"

    def layer(self, inputs: int, size: int) -> nn.RNNBase:
        """All biases begin at 0."""
        layer = nn.GRU(inputs, size, batch_first=True)
        initialise(layer, gates=3)
        return layer

    def memory(self, hidden: Tensor) -> Tensor:
        """Nothing [B, 0]."""
        return hidden[:, :0]

    def from_inputs(self, weight: Tensor) -> Tensor:
        """Blocks r, z, W x, 0."""
        return torch.cat([weight, torch.zeros_like(weight.chunk(3)[0])])

    def from_hidden(self, weight: Tensor) -> Tensor:
        """Blocks r, z, 0, U h."""
        reset, update, new = weight.chunk(3)
        return torch.cat([reset, update, torch.zeros_like(new), new])

    def step(self, gates: Tensor, hidden: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """New hidden [B, D]; the cell is empty."""
        reset, update, entering, kept = gates.chunk(4, -1)
        new = torch.tanh(entering + reset.sigmoid() * kept)  # [B, D]
        update = update.sigmoid()
        return (1 - update) * new + update * hidden, memory

    def back(
        self, gates: Tensor, hidden: Tensor, memory: Tensor, of_hidden: Tensor, of_memory: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The empty cell has no slope."""
        reset, update, entering, kept = gates.chunk(4, -1)
        reset, update = reset.sigmoid(), update.sigmoid()
        new = torch.tanh(entering + reset * kept)  # [B, D]
        of_update = of_hidden * (hidden - new) * update * (1 - update)
        of_entering = of_hidden * (1 - update) * (1 - new * new)
        of_reset = of_entering * kept * reset * (1 - reset)
        of_gates = torch.cat([of_reset, of_update, of_entering, of_entering * reset], -1)
        return of_gates, of_hidden * update, of_memory

    def fused(self, layer: nn.RNNBase, inputs: Tensor, hidden: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Torch's GRU."""
        outputs, last = layer(inputs, hidden.unsqueeze(0).contiguous())
        return outputs, last.squeeze(0), memory


def initialise(layer: nn.Module, gates: int) -> None:
    """Xavier for inputs, orthogonal for each gate's recurrence, biases 0."""
    for name, parameter in layer.named_parameters():
        if parameter.dim() < 2:
            nn.init.zeros_(parameter)
        elif name.startswith("weight_hh"):
            for gate in parameter.chunk(gates):
                nn.init.orthogonal_(gate)
        else:
            nn.init.xavier_uniform_(parameter)


def run(
    cell: Cell,
    layer: Any,  # noqa: ANN401 - nn.LSTM or nn.GRU
    inputs: Tensor,
    hidden: Tensor,
    memory: Tensor,
    kept: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """A layer over inputs [B, T, I]: outputs [B, T, D], hidden [B, D] and cell [B, C] after them.

    In the fused kernel; with a mask ``kept`` [B, D], which multiplies the hidden state in each step's product, in a
    loop of :meth:`Cell.step`. Autocast is left off on a CPU: its kernels round the cell's state to the half precision.
    """
    if torch.is_autocast_enabled("cpu"):
        with torch.autocast("cpu", enabled=False):
            dtype = layer.weight_ih_l0.dtype
            return _run(cell, layer, inputs.to(dtype), hidden.to(dtype), memory.to(dtype), kept)
    return _run(cell, layer, inputs, hidden, memory, kept)


def _run(
    cell: Cell,
    layer: Any,  # noqa: ANN401 - nn.LSTM or nn.GRU
    inputs: Tensor,
    hidden: Tensor,
    memory: Tensor,
    kept: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    if kept is None:
        return cell.fused(layer, inputs, hidden, memory)
    entering = F.linear(inputs, cell.from_inputs(layer.weight_ih_l0), cell.from_inputs(layer.bias_ih_l0))
    weight, bias = cell.from_hidden(layer.weight_hh_l0), cell.from_hidden(layer.bias_hh_l0)
    outputs = []
    for gates in entering.unbind(1):  # [B, 4 D]
        hidden, memory = cell.step(gates + F.linear(hidden * kept, weight, bias), hidden, memory)
        outputs.append(hidden)
    return torch.stack(outputs, 1), hidden, memory


def shared_mask(like: Tensor, dropout: float) -> Tensor:
    """A dropout mask of a tensor's shape that is kept for a whole sequence: 0, or 1 / (1 - dropout)."""
    return drop(torch.ones_like(like), dropout)
