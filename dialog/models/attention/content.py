"""Scorers that compare the content of a query with the content of a source token, and one that
writes to what it reads.

Shapes: B rows, T queries of width Q, S source tokens of width M, K key width.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from dialog.config.components import Component, Family, build
from dialog.models.attention.additive import AdditiveScorer
from dialog.models.contracts import declared_needs
from dialog.models.kernels.linear import Linear


class DotScorer(nn.Module):
    """score(q, k) = q . k, of equal sizes; Luong et al. 2015, equation 8 (dot)."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        check_equal_sizes(query_size, key_size)

    def keys(self, states: Tensor) -> Tensor:
        """The states themselves."""
        return states  # [B, S, M]

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores [B, T, S]."""
        return query @ keys.transpose(1, 2)  # [B, T, S]

    def prepared(self, *, int8: bool) -> PreparedDot:
        """Return the same product; the keys are laid out already."""
        return PreparedDot()


class ScaledDotScorer(nn.Module):
    """score(q, k) = q . k / sqrt(d), of equal sizes d; Vaswani et al. 2017, equation 1."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        check_equal_sizes(query_size, key_size)
        self.scale = 1 / math.sqrt(query_size)

    def keys(self, states: Tensor) -> Tensor:
        """The states, scaled once for all queries."""
        return states * self.scale  # [B, S, M]

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores [B, T, S]."""
        return query @ keys.transpose(1, 2)  # [B, T, S]

    def prepared(self, *, int8: bool) -> PreparedDot:
        """Return the same product; the keys are laid out already."""
        return PreparedDot()


class BilinearScorer(nn.Module):
    """score(q, k) = q . W k; Luong et al. 2015, equation 8 (general).

    ``key.weight`` is W; no bias.
    """

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        self.key = Linear(key_size, query_size, bias=False)

    def keys(self, states: Tensor) -> Tensor:
        """W k of every source token."""
        keys: Tensor = self.key(states)  # [B, S, Q]
        return keys

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores [B, T, S]."""
        return query @ keys.transpose(1, 2)  # [B, T, S]

    def prepared(self, *, int8: bool) -> PreparedDot:
        """Return the same product; the keys are laid out already."""
        return PreparedDot()


class PreparedDot:
    """Scores that are products of the queries themselves with the keys of their source."""

    def keys(self, keys: Tensor) -> Tensor:
        """The keys themselves."""
        return keys  # [N, S, Q]

    def __call__(self, query: Tensor, keys: Tensor, copies: int) -> Tensor:
        """Return scores [N, K, S] of queries [N K, Q] and keys [N, S, Q], K = ``copies``."""
        return torch.bmm(query.view(len(keys), copies, -1), keys.transpose(1, 2))


def check_equal_sizes(query_size: int, key_size: int) -> None:
    """Raise ValueError unless query and source have the same size."""
    if query_size != key_size:
        raise ValueError(
            f"the query has size {query_size}, the source {key_size}; make them equal or use"
            " bilinear"
        )


CONTENT_SCORERS: Family[Any] = Family(
    "scorer",
    {
        "additive": AdditiveScorer,
        "dot": DotScorer,
        "scaled_dot": ScaledDotScorer,
        "bilinear": BilinearScorer,
    },
    runtime=("query_size", "key_size"),
)


def build_content_scorer(component: Component, *, query_size: int, key_size: int) -> Any:
    """Build a scorer inside another one; it gets query and keys only.

    Raises:
        ValueError: the scorer needs more than that.
    """
    scorer = build(CONTENT_SCORERS, component, query_size=query_size, key_size=key_size)
    declared_needs(scorer, offered=())
    return scorer


class InteractiveScorer(nn.Module):
    """Scores of a content scorer; after a read, k_j becomes k_j (1 - a_j F) + a_j U; Meng
    et al. 2016, 3.2.

    F = sigmoid(W_F s) and U = sigmoid(W_U s), with the weights a of that read and the next query as
    s: in Bahdanau's form, and with input feeding, this is the first state that depends on the read.
    States are written just before the next read.
    """

    def __init__(self, query_size: int, key_size: int, scorer: Component) -> None:
        super().__init__()
        self.scorer = build_content_scorer(scorer, query_size=query_size, key_size=key_size)
        self.forget = Linear(query_size, key_size)
        self.update = Linear(query_size, key_size)

    def keys(self, states: Tensor) -> Tensor:
        """Keys of the inner scorer."""
        keys: Tensor = self.scorer.keys(states)  # [B, S, K]
        return keys

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores [B, T, S]."""
        scores: Tensor = self.scorer(query, keys)
        return scores

    def write(self, states: Tensor, query: Tensor, last: Tensor) -> Tensor:
        """Return states [B, S, M] after a read with weights ``last`` [B, S]; query [B, 1, Q]."""
        forget: Tensor = self.forget(query).sigmoid()  # [B, 1, M]
        update: Tensor = self.update(query).sigmoid()  # [B, 1, M]
        read = last.unsqueeze(-1).to(update.dtype)  # [B, S, 1]
        return states * (1 - read * forget) + read * update  # [B, S, M]
