"""State of the decoder's self-attention: keys and values of the target so far, in buffers with room
for more.

Shapes: B rows, T new target tokens, T' target tokens so far, C capacity of a buffer, G heads of
keys and values, W width of a head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self, final

import torch
import torch.nn.functional as F
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
    # [B, T'], True = a place with a token; None: all have one
    real: Tensor | None = None

    @staticmethod
    def empty(layers: int, like: Tensor) -> SelfAttentionState:
        """Return the state before the first token, with the rows and heads of keys [B, G, S, W]."""
        buffer = like[:, :, :0]
        return SelfAttentionState(((buffer, buffer),) * layers, 0, Claim(0))

    @property
    def position(self) -> int | Tensor:
        """The position of the next token: one for all rows, or that of each [B]."""
        return self.length if self.real is None else self.real.sum(1)

    def real_after(self, tokens: int) -> Tensor | None:
        """Return `real` after T more tokens."""
        return None if self.real is None else F.pad(self.real, (0, tokens), value=True)

    def extended(self, tokens: int) -> Extension:
        """Return the places of the next T tokens."""
        buffer = self.layers[0][0]
        writable = (
            not torch.is_grad_enabled()
            and buffer.is_inference() == torch.is_inference_mode_enabled()
        )
        end = self.length + tokens
        real = self.real_after(tokens)
        if writable and self.claim.places == self.length and end <= buffer.shape[2]:
            self.claim.places = end
            return Extension(self.length, end, end, self.claim, real)
        has_room = tokens == 1 and not torch.is_grad_enabled()
        capacity = end + max(ROOM, end // 4) if has_room else end
        return Extension(self.length, end, capacity, None, real)

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of all parts; their last tokens share a place, and the places before the
        first token of a shorter row are not real. Places that no row needs are left out.
        """
        kept = [part.length - part._unused() for part in parts]
        if kept == [parts[0].length]:
            return parts[0]
        length = max(kept)
        counts = [len(part.layers[0][0]) for part in parts]

        def buffer(layer: int, side: int) -> Tensor:
            olds = [part.layers[layer][side] for part in parts]
            first = olds[0]
            shape = (sum(counts), first.shape[1], length + ROOM, first.shape[3])
            joined = first.new_zeros(shape)  # a masked place must be finite
            places = joined.split_with_sizes(counts)
            for rows, part, old, own in zip(places, parts, olds, kept, strict=True):
                rows[:, :, length - own : length] = old[:, :, part.length - own : part.length]
            return joined

        layers = tuple(
            (buffer(layer, 0), buffer(layer, 1)) for layer in range(len(parts[0].layers))
        )
        if set(kept) == {length} and all(part.real is None for part in parts):
            return cls(layers, length, Claim(length))
        real = layers[0][0].new_zeros(sum(counts), length, dtype=torch.bool)
        for rows, part, own in zip(real.split_with_sizes(counts), parts, kept, strict=True):
            rows[:, length - own :] = (
                True if part.real is None else part.real[:, part.length - own :]
            )
        return cls(layers, length, Claim(length), None if bool(real.all()) else real)

    def _unused(self) -> int:
        """Return the number of places before the first real one of all rows."""
        if self.real is None:
            return 0
        return int((~self.real.any(0)).cumprod(0).sum())

    def _map(self, change: Callable[[Tensor], Tensor]) -> SelfAttentionState:
        """Change the rows of all buffers; ``change`` returns new tensors, which no other state
        holds.
        """
        layers = tuple((change(keys), change(values)) for keys, values in self.layers)
        real = None if self.real is None else change(self.real)
        return SelfAttentionState(layers, self.length, Claim(self.length), real)


@dataclass(frozen=True)
class Extension:
    """Places ``begin`` to ``end`` of a state's buffers."""

    begin: int
    end: int
    capacity: int  # of new buffers
    claim: Claim | None  # of the buffers that are written; None: they are copied
    real: Tensor | None = None  # [B, end], as in the state

    @property
    def mask(self) -> Tensor | None:
        """The mask of the places [B, 1, 1, end]; None if all are real."""
        return None if self.real is None else self.real[:, None, None]

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
        return SelfAttentionState(layers, self.end, self.claim or Claim(self.end), self.real)
