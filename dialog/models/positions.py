"""Positions of tokens.

Shapes: B rows, T tokens, D width, H heads, W = D / H width of a head.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn

from dialog.config.components import Family
from dialog.errors import UserError

Turn = Callable[[Tensor], Tensor]
"""Turns query or key heads [B, H, T, W] by the angles of their positions, without changing lengths.
"""


def unturned(heads: Tensor) -> Tensor:
    """Return the heads unchanged."""
    return heads


class PositionEncoding(nn.Module, ABC):
    """Encodes positions: adds them to the inputs, or turns queries and keys of self-attention.

    An ``offset`` is one number for all rows, or one for each: [B].
    """

    @abstractmethod
    def forward(self, inputs: Tensor, offset: int | Tensor = 0) -> Tensor:
        """Encode the positions ``offset``, ``offset`` + 1, ... of inputs [B, T, D]."""

    def check_length(self, length: int) -> None:
        """Check that positions below ``length`` can be encoded; `forward` checks it for an offset
        that is a number.

        Raises:
            UserError: they cannot.
        """

    @abstractmethod
    def turn_at(self, inputs: Tensor, offset: int | Tensor = 0) -> Turn:
        """Return the turn at the positions ``offset``, ``offset`` + 1, ... of inputs [.., T, D],
        for all layers.
        """


class SinusoidalPositions(PositionEncoding):
    """p[t, 2i] = sin(t / 10000^(2i / D)), p[t, 2i + 1] = cos(t / 10000^(2i / D)); Vaswani
    et al. 2017, 3.5.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, inputs: Tensor, offset: int | Tensor = 0) -> Tensor:
        """Add positions to inputs [B, T, D]."""
        angles = _angles(offset, inputs.shape[1], self.size, inputs.device)  # [.., T, ceil(D / 2)]
        # [T, D] or [B, T, D]
        table = torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)[..., : self.size]
        return inputs + table.to(inputs.dtype)

    def turn_at(self, inputs: Tensor, offset: int | Tensor = 0) -> Turn:
        """Return the identity."""
        return unturned


class LearnedPositions(PositionEncoding):
    """p[t] is row t of a learned table; Gehring et al. 2017, 3.1.

    The ``length`` rows start as N(0, 1 / D), so a position starts with a smaller norm than a token
    (unit variance).
    """

    def __init__(self, size: int, *, length: int = 1024) -> None:
        super().__init__()
        if length < 1:
            raise ValueError(f"length must be at least 1, not {length}")
        self.table = nn.Embedding(length, size)
        nn.init.normal_(self.table.weight, std=size**-0.5)

    def forward(self, inputs: Tensor, offset: int | Tensor = 0) -> Tensor:
        """Add positions to inputs [B, T, D].

        Raises:
            UserError: the sequence is longer than the table.
        """
        if isinstance(offset, Tensor):
            added: Tensor = self.table(
                steps_from(offset, inputs.shape[1], inputs.device)
            )  # [B, T, D]
            return inputs + added
        end = offset + inputs.shape[1]
        self.check_length(end)
        return inputs + self.table.weight[offset:end]

    def check_length(self, length: int) -> None:
        """Check that the table has a row for each position below ``length``.

        Raises:
            UserError: it has not.
        """
        longest = self.table.num_embeddings
        if length > longest:
            raise UserError(
                f"learned positions: length is {longest}, but a sequence has {length} tokens; "
                "increase positions.length or shorten the sequences"
            )

    def turn_at(self, inputs: Tensor, offset: int | Tensor = 0) -> Turn:
        """Return the identity."""
        return unturned


class RotaryPositions(PositionEncoding):
    """Turns the pair (x[2i], x[2i + 1]) of a query or key at t by the angle t / 10000^(2i / W); Su
    et al. 2021, 3.2.

    ``q_s . k_t`` then depends on ``s - t`` only. The inputs stay unchanged.
    """

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        if heads < 1 or size % heads:
            raise ValueError(f"size {size} is not a multiple of {heads} heads")
        if size // heads % 2:
            raise ValueError(
                f"the width of a head, {size} / {heads}, must be even for rotary positions"
            )
        self.width = size // heads

    def forward(self, inputs: Tensor, offset: int | Tensor = 0) -> Tensor:
        """Return the inputs unchanged."""
        return inputs

    def turn_at(self, inputs: Tensor, offset: int | Tensor = 0) -> Turn:
        """Compute all angles, in float32 or better; return the function that turns by them."""
        angles = _angles(offset, inputs.shape[-2], self.width, inputs.device)  # [.., T, W / 2]
        if angles.dim() == 3:
            angles = angles.unsqueeze(1)  # for all heads: [B, 1, T, W / 2]
        exact = torch.promote_types(inputs.dtype, torch.float32)
        cosine = angles.cos().to(exact)
        sine = angles.sin().to(exact)

        def turn(heads: Tensor) -> Tensor:
            # [B, H, T, W / 2]
            even = heads[..., 0::2]
            odd = heads[..., 1::2]
            # [B, H, T, W / 2, 2]
            turned = torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1)
            return turned.flatten(3).to(heads.dtype)  # [B, H, T, W]

        return turn


def _angles(offset: int | Tensor, length: int, size: int, device: torch.device) -> Tensor:
    """Angles t / 10000^(2i / size) for positions t = offset, offset + 1, ... and i = 0, 1, ... :
    [T, ceil(size / 2)], or [B, T, ceil(size / 2)] for offsets [B].
    """
    exact = torch.float32 if device.type == "mps" else torch.float64  # bfloat16 rounds 257 to 256
    steps = steps_from(offset, length, device).to(exact)  # [T] or [B, T]
    frequencies = torch.exp(
        torch.arange(0, size, 2, device=device, dtype=exact) * (-math.log(1e4) / size)
    )
    return steps.unsqueeze(-1) * frequencies


def steps_from(offset: int | Tensor, length: int, device: torch.device) -> Tensor:
    """Positions [T], or [B, T] for offsets [B]."""
    steps = torch.arange(length, device=device)
    return steps + (offset.unsqueeze(-1) if isinstance(offset, Tensor) else offset)


POSITIONS: Family[PositionEncoding] = Family(
    "positions",
    {
        "sinusoidal": SinusoidalPositions,
        "learned": LearnedPositions,
        "rotary": RotaryPositions,
    },
    runtime=("size", "heads"),
)
