"""State of the decoder's self-attention: keys and values of the target so far, in buffers with room
for more.

Shapes: B rows, T new target tokens, T' target tokens so far, C capacity of a buffer, G heads of
keys and values, W width of a head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from dialog.models.state import Rows

KeysValues = tuple[Tensor, Tensor]
ROOM = 15
"""Smallest number of free places of a new buffer that is extended token by token; a beam copies
them at each step.
"""


@final
class Claim:
    """Number of filled places of some buffers, shared by all states that hold them."""

    def __init__(self, places: int) -> None:
        self.places = places


@dataclass(frozen=True)
class SelfAttentionState(Rows):
    """Keys (turned by their positions) and values of the target so far, for each layer's
    self-attention.

    It is a value: no step changes it. Without gradients a step writes into the room of the buffers,
    which no earlier state reads, and claims it; a second step from the same state (a beam that
    branches) finds it claimed, and copies. With gradients every step copies, because the backward
    pass reads the buffers of each.
    """

    # each [B, G, C, W], of which the first `length` places are filled
    layers: tuple[KeysValues, ...]
    length: int  # T'
    claim: Claim

    @staticmethod
    def empty(layers: int, like: Tensor) -> SelfAttentionState:
        """Return the state before the first token, with the rows and heads of keys [B, G, S, W]."""
        buffer = like[:, :, :0]
        return SelfAttentionState(((buffer, buffer),) * layers, 0, Claim(0))

    def extended(self, tokens: int) -> Extension:
        """Return the places of the next T tokens."""
        buffer = self.layers[0][0]
        writable = (
            not torch.is_grad_enabled()
            and buffer.is_inference() == torch.is_inference_mode_enabled()
        )
        end = self.length + tokens
        if writable and self.claim.places == self.length and end <= buffer.shape[2]:
            self.claim.places = end
            return Extension(self.length, end, end, self.claim)
        has_room = tokens == 1 and not torch.is_grad_enabled()
        return Extension(self.length, end, end + max(ROOM, end // 4) if has_room else end, None)

    def _map(self, change: Callable[[Tensor], Tensor]) -> SelfAttentionState:
        """Change the rows of all buffers; ``change`` returns new tensors, which no other state
        holds.
        """
        layers = tuple((change(keys), change(values)) for keys, values in self.layers)
        return SelfAttentionState(layers, self.length, Claim(self.length))


@dataclass(frozen=True)
class Extension:
    """Places ``begin`` to ``end`` of a state's buffers."""

    begin: int
    end: int
    capacity: int  # of new buffers
    claim: Claim | None  # of the buffers that are written; None: they are copied

    def write(self, buffer: Tensor, tokens: Tensor) -> Tensor:
        """Return a buffer [B, G, C, W] with the places of the buffer before ``begin`` and tokens
        [B, G, T, W].
        """
        if self.claim is None and self.capacity == self.end:
            return torch.cat([buffer[:, :, : self.begin], tokens], 2)
        if self.claim is None:
            old = buffer
            shape = (*tokens.shape[:2], self.capacity, tokens.shape[3])
            buffer = tokens.new_empty(shape)
            buffer[:, :, : self.begin] = old[:, :, : self.begin]
        buffer[:, :, self.begin : self.end] = tokens
        return buffer

    def filled(self, buffer: Tensor) -> Tensor:
        """Return the filled places of a written buffer: [B, G, T', W]."""
        return buffer[:, :, : self.end]

    def state(self, layers: tuple[KeysValues, ...]) -> SelfAttentionState:
        """Return the state of written buffers."""
        return SelfAttentionState(layers, self.end, self.claim or Claim(self.end))
