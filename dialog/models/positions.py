"""Where a token stands.

Shapes: B rows, T tokens, D width, H heads, W = D / H width of a head.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from dialog.config.components import Family
from dialog.errors import UserError


class Positions(nn.Module, ABC):
    """Tells a network the places of tokens: added to its inputs, or by turning queries and keys of self-attention."""

    @abstractmethod
    def forward(self, inputs: Tensor, offset: int = 0) -> Tensor:
        """Inputs [B, T, D] of the positions ``offset``, ``offset`` + 1, ... -> [B, T, D]."""

    @abstractmethod
    def turn(self, heads: Tensor, offset: int = 0) -> Tensor:
        """Queries or keys [B, H, T, W] of the positions ``offset``, ``offset`` + 1, ... -> [B, H, T, W]."""


class SinusoidalPositions(Positions):
    """p[t, 2i] = sin(t / 10000^(2i / D)), p[t, 2i + 1] = cos(t / 10000^(2i / D)); Vaswani et al. 2017, 3.5."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, inputs: Tensor, offset: int = 0) -> Tensor:
        """Inputs [B, T, D] with their positions added."""
        angles = _angles(offset, inputs.shape[1], self.size, inputs.device)  # [T, ceil(D / 2)]
        table = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, : self.size]  # [T, D]
        return inputs + table.to(inputs.dtype)

    def turn(self, heads: Tensor, offset: int = 0) -> Tensor:
        """Heads as they are."""
        return heads


class LearnedPositions(Positions):
    """p[t] is row t of a table that is learned; Gehring et al. 2017, 3.1.

    It has ``length`` rows, each N(0, 1 / D) at first: a position begins shorter than a token, which has unit variance.
    """

    def __init__(self, size: int, *, length: int = 1024) -> None:
        super().__init__()
        if length < 1:
            raise ValueError(f"length must be at least 1, not {length}")
        self.table = nn.Embedding(length, size)
        nn.init.normal_(self.table.weight, std=size**-0.5)

    def forward(self, inputs: Tensor, offset: int = 0) -> Tensor:
        """Inputs [B, T, D] with their positions added.

        Raises:
            UserError: the sequence is longer than the table.
        """
        length, end = self.table.num_embeddings, offset + inputs.shape[1]
        if end > length:
            raise UserError(
                f"learned positions: length is {length}, but a sequence has {end} tokens; "
                "give positions a greater length, or keep sequences shorter"
            )
        return inputs + self.table.weight[offset:end]

    def turn(self, heads: Tensor, offset: int = 0) -> Tensor:
        """Heads as they are."""
        return heads


class RotaryPositions(Positions):
    """Turns the pair (x[2i], x[2i + 1]) of a query or key at t by the angle t / 10000^(2i / W); Su et al. 2021, 3.2.

    So ``q_s . k_t`` depends on ``s - t`` and not on s. Nothing is added to the inputs.
    """

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        if heads < 1 or size % heads:
            raise ValueError(f"size {size} is no multiple of {heads} heads")
        if size // heads % 2:
            raise ValueError(f"rotary positions turn pairs: the width of a head, {size} / {heads}, must be even")

    def forward(self, inputs: Tensor, offset: int = 0) -> Tensor:
        """Inputs as they are."""
        return inputs

    def turn(self, heads: Tensor, offset: int = 0) -> Tensor:
        """Heads [B, H, T, W], each pair turned; in float32 at least."""
        angles = _angles(offset, heads.shape[2], heads.shape[3], heads.device)  # [T, W / 2]
        exact = torch.promote_types(heads.dtype, torch.float32)
        cosine, sine = angles.cos().to(exact), angles.sin().to(exact)
        even, odd = heads[..., 0::2], heads[..., 1::2]  # [B, H, T, W / 2]
        turned = torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1)  # [B, H, T, W / 2, 2]
        return turned.flatten(3).to(heads.dtype)  # [B, H, T, W]


def _angles(offset: int, length: int, size: int, device: torch.device) -> Tensor:
    """The angles t / 10000^(2i / size) of positions t = offset, offset + 1, ... and i = 0, 1, ... ."""
    exact = torch.float32 if device.type == "mps" else torch.float64  # in bfloat16, 256 and 257 are one position
    steps = torch.arange(offset, offset + length, device=device, dtype=exact)
    frequencies = torch.exp(torch.arange(0, size, 2, device=device, dtype=exact) * (-math.log(1e4) / size))
    return torch.outer(steps, frequencies)  # [T, ceil(size / 2)]


POSITIONS: Family[Positions] = Family(
    "positions",
    {
        "sinusoidal": SinusoidalPositions,
        "learned": LearnedPositions,
        "rotary": RotaryPositions,
    },
    runtime=("size", "heads"),
)
