"""Scorers that compare what a query holds with what a source token holds.

Shapes: B rows, T queries of width Q, S source tokens of width M, K key width. Each is made of a query and a key size.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import torch
from torch import Tensor, nn

from dialog.config.components import Component, Family, build


class AdditiveScorer(nn.Module):
    """score(q, k) = v . tanh(W q + U k); Bahdanau et al. 2015, appendix A.1.2 (W_a, U_a, v_a).

    Parameters ``query.weight`` is W, ``key.weight`` is U, ``energy.weight`` is v; no biases.
    """

    def __init__(self, query_size: int, key_size: int, size: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_size, size, bias=False)
        self.key = nn.Linear(key_size, size, bias=False)
        self.energy = nn.Linear(size, 1, bias=False)

    def keys(self, states: Tensor) -> Tensor:
        """U k for every source token."""
        keys: Tensor = self.key(states)  # [B, S, K]
        return keys

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores [B, T, S]."""
        mixed = torch.tanh(self.query(query).unsqueeze(2) + keys.unsqueeze(1))  # [B, T, S, K]
        scores: Tensor = self.energy(mixed).squeeze(-1)  # [B, T, S]
        return scores


class DotScorer(nn.Module):
    """score(q, k) = q . k, of equal sizes; Luong et al. 2015, equation 8 (dot)."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        same_size(query_size, key_size)

    def keys(self, states: Tensor) -> Tensor:
        """The states themselves."""
        return states  # [B, S, M]

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores [B, T, S]."""
        return query @ keys.transpose(1, 2)  # [B, T, S]


class ScaledDotScorer(nn.Module):
    """score(q, k) = q . k / sqrt(d), of equal sizes d; Vaswani et al. 2017, equation 1."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        same_size(query_size, key_size)
        self.scale = 1 / math.sqrt(query_size)

    def keys(self, states: Tensor) -> Tensor:
        """The states, scaled once for all queries."""
        return states * self.scale  # [B, S, M]

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores [B, T, S]."""
        return query @ keys.transpose(1, 2)  # [B, T, S]


class BilinearScorer(nn.Module):
    """score(q, k) = q . W k; Luong et al. 2015, equation 8 (general). ``key.weight`` is W; no bias."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        self.key = nn.Linear(key_size, query_size, bias=False)

    def keys(self, states: Tensor) -> Tensor:
        """W k for every source token."""
        keys: Tensor = self.key(states)  # [B, S, Q]
        return keys

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores [B, T, S]."""
        return query @ keys.transpose(1, 2)  # [B, T, S]


def same_size(query_size: int, key_size: int) -> None:
    """Refuse a product of vectors of two sizes."""
    if query_size != key_size:
        raise ValueError(f"the query has size {query_size}, the source {key_size}; make them equal or take bilinear")


CONTENT: Family[Any] = Family(
    "scorer",
    {
        "additive": AdditiveScorer,
        "dot": DotScorer,
        "scaled_dot": ScaledDotScorer,
        "bilinear": BilinearScorer,
    },
    runtime=("query_size", "key_size"),
)


def build_content(component: Component, *, query_size: int, key_size: int) -> Any:  # noqa: ANN401 - a user's may be any
    """A scorer inside another one, which has a query and keys to give it and no more."""
    scorer = build(CONTENT, component, query_size=query_size, key_size=key_size)
    asks = set(inspect.signature(getattr(scorer, "forward", scorer)).parameters) & {"mask", "last", "coverage"}
    if asks:
        raise ValueError(
            f"the scorer inside, {component['name']}, is given a query and keys, not {', '.join(sorted(asks))}"
        )
    return scorer
