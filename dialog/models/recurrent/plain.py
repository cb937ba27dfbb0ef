"""The recurrent decoder without attention.

Shapes: B rows, T target tokens, E embedding size, D hidden size.
"""

from __future__ import annotations

from torch import Tensor, nn

from dialog.config.components import Component, build
from dialog.models.contracts import AttentionHook, Decoder, Encoded, Memory
from dialog.models.kernels.linear import Linear
from dialog.models.kernels.products import product
from dialog.models.recurrent.bridges import BRIDGES, final_states, first_states
from dialog.models.recurrent.cells import RecurrentCell, RecurrentSettings
from dialog.models.recurrent.prepared import PreparedRecurrent, RecurrentState, StepOutput
from dialog.models.recurrent.stack import Stack, StackState
from dialog.models.state import Rows

FINAL: Component = {"name": "final"}


class PlainDecoder(Decoder):
    """The source enters through the first state only; Sutskever et al. 2014.

    The outputs are the top layer's states, projected without bias if they have not the embedding's
    size.
    """

    Settings = RecurrentSettings
    stepwise = True
    pointer = None
    preparable = True

    def __init__(
        self,
        cell: RecurrentCell,
        settings: RecurrentSettings,
        *,
        memory_size: int,
        bridge: Component = FINAL,
    ) -> None:
        super().__init__()
        size = settings.size
        input_size = settings.input_size
        self.stack = Stack(cell, settings, extra_size=0)
        self.bridge = build(
            BRIDGES, bridge, memory_size=memory_size, size=size, layers=settings.layers
        )
        self.needs_final = final_states(self.bridge, cell, settings.layers)
        self.output = nn.Identity() if size == input_size else Linear(size, input_size, bias=False)

    def prepared(self, *, int8: bool) -> PreparedPlain:
        """Return the same steps in fewer calls."""
        return PreparedPlain(self, int8=int8)

    def start(self, encoded: Encoded) -> tuple[Rows, StackState]:
        """Return an empty memory, and s_0 from the encoder."""
        return Rows(), self.stack.start(*first_states(self.bridge, encoded))

    def forward(
        self, inputs: Tensor, memory: Memory, state: StackState, hook: AttentionHook | None = None
    ) -> tuple[Tensor, StackState]:
        """Map inputs [B, T, E] to outputs [B, T, E]; the hook is never called."""
        states, state = self.stack(inputs, state)  # [B, T, D]
        return self.output(states), state


class PreparedPlain(PreparedRecurrent):
    """`PlainDecoder` for generation."""

    def __init__(self, decoder: PlainDecoder, *, int8: bool) -> None:
        super().__init__(decoder, decoder.stack, int8=int8)
        self.original = decoder
        output = decoder.output
        self.output = product(output.weight, int8=int8) if isinstance(output, nn.Linear) else None

    def start(self, encoded: Encoded) -> tuple[Rows, RecurrentState]:
        """Return an empty memory, and s_0."""
        memory, state = self.original.start(encoded)
        return memory, RecurrentState.of(state)

    def step(self, token: Tensor, memory: Rows, state: RecurrentState) -> StepOutput:
        """Project the new state."""
        state = self.advanced(state, token)
        top = state.hidden[-1]
        return StepOutput(top if self.output is None else self.output(top), state)
