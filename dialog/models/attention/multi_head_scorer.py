"""Multi-head attention of a recurrent decoder.

Shapes: B rows, T queries of width Q, S source tokens of width M, H heads, W width of a head's
    values.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn

from dialog.models.attention.heads import HeadSlices
from dialog.models.kernels.linear import Linear

JOINS = ("concatenation", "mean", "max")


class MultiHeadScorer(nn.Module):
    """score_h(q, k) = W_h q .

    U_h k / sqrt(K / H) for each head; Vaswani et al. 2017, 3.2.2, for one recurrent query.

    Each head averages its own values V_h k. Heads are joined by ``output([head_1; ...; head_H])``
    (each M / H wide), or by the mean or the maximum over heads (each M wide).
    """

    def __init__(
        self,
        query_size: int,
        key_size: int,
        *,
        heads: int,
        size: int | None = None,
        join: str = "concatenation",
    ) -> None:
        super().__init__()
        size = key_size if size is None else size
        if join not in JOINS:
            raise ValueError(f"join must be one of {', '.join(JOINS)}, not {join!r}")
        if heads < 1 or size < 1 or size % heads or (join == "concatenation" and key_size % heads):
            raise ValueError(
                f"size {size} and the source's size {key_size} must be multiples of {heads} heads"
            )
        self.heads = heads
        self.pool = join
        self.query = Linear(query_size, size)
        # a bias would add the same to all scores of a query
        self.key = Linear(key_size, size, bias=False)
        self.value = Linear(key_size, key_size if join == "concatenation" else heads * key_size)
        self.output = Linear(key_size, key_size) if join == "concatenation" else nn.Identity()

    @property
    def head_output(self) -> HeadSlices:
        """The output layer, which reads all heads; for other joins the layer that computes their
        values.
        """
        joined = self.pool == "concatenation"
        return HeadSlices(
            cast("nn.Linear", self.output) if joined else self.value, self.heads, inputs=joined
        )

    def keys(self, states: Tensor) -> Tensor:
        """U k of every head and source token, scaled once for all queries."""
        # [B, H, S, K / H]
        return self._split(self.key(states) / math.sqrt(self.key.out_features / self.heads))

    def values(self, states: Tensor) -> Tensor:
        """V k of every head and source token."""
        return self._split(self.value(states))  # [B, H, S, W]

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores [B, H, T, S]."""
        return self._split(self.query(query)) @ keys.transpose(-2, -1)  # [B, H, T, S]

    def join(self, contexts: Tensor) -> Tensor:
        """Join contexts [B, H, T, W] of all heads into [B, T, M]."""
        if self.pool == "mean":
            return contexts.mean(1)
        if self.pool == "max":
            return contexts.amax(1)
        joined: Tensor = self.output(contexts.transpose(1, 2).flatten(2))  # [B, T, M]
        return joined

    def _split(self, states: Tensor) -> Tensor:
        return torch.unflatten(states, -1, (self.heads, -1)).transpose(1, 2)  # [B, H, S, K / H]
