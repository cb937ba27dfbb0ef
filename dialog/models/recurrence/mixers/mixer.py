"""Contract of a mixer: a layer that carries a state from token to token.

Shapes: B rows, T tokens, D size of the model, H heads, K, V widths of a head's keys and values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor, nn

from dialog.models.contracts import AttentionHook, meant_for
from dialog.models.kernels.linear import Linear
from dialog.models.recurrence.kernels.recurrence import Memory, Recurrence, Signals
from dialog.models.state import Rows


@dataclass(frozen=True)
class MixerState(Rows):
    """State of a mixer; empty before all tokens."""

    memory: Memory = ()  # of the recurrence
    window: tuple[
        Tensor, ...
    ] = ()  # inputs [B, W - 1, C] that a convolution or a shift reads again


START = MixerState()


class Mixer(nn.Module, ABC):
    """A causal layer with a state of fixed size, in time linear in the number of tokens.

    The laws: ``forward(xs + ys, s)`` is ``forward(xs, s)`` and then ``forward(ys, s')``, for each
    cut; padding on the right changes neither the outputs at real tokens nor the state. A mixer
    computes the signals of its `Recurrence` and passes them to `mix`, which takes care of both but
    for what reads earlier inputs: that is done with `with_previous` (`local.py`).

    A constructor gets those of ``size`` (D), ``width`` (of all heads' values) and ``heads`` that it
    names; its further arguments are those of the recipe.
    """

    @abstractmethod
    def forward(
        self,
        inputs: Tensor,
        state: MixerState = START,
        mask: Tensor | None = None,
        hook: AttentionHook | None = None,
    ) -> tuple[Tensor, MixerState]:
        """Map inputs [B, T, D] to outputs [B, T, D], mask [B, T] (True = real); return them and the
        state after each row's real tokens.
        """

    def mix(
        self,
        recurrence: Recurrence,
        signals: Signals,
        state: MixerState,
        mask: Tensor | None,
        hook: AttentionHook | None = None,
    ) -> tuple[Tensor, Memory]:
        """Run the recurrence; its outputs have the precision of the first signal or better."""
        if (wanted := meant_for(hook, self)) is not None:
            wanted(self, recurrence.weights(signals, mask))
        return recurrence.run(signals, state.memory, mask)


def projection(inputs: int, outputs: int, *, bias: bool = False) -> Linear:
    """Return a linear layer with Xavier weights and, if it has one, a bias of zeros."""
    layer = Linear(inputs, outputs, bias=bias)
    nn.init.xavier_uniform_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def check_heads(width: int, heads: int, multiple: int = 1) -> None:
    """Check that the width of each head is a whole multiple.

    Raises:
        ValueError: it is not.
    """
    if heads < 1 or width < 1 or width % (multiple * heads):
        raise ValueError(
            f"width {width} is not a multiple of {multiple * heads}: {heads} heads"
            + (f" of a multiple of {multiple}" if multiple > 1 else "")
        )
