"""Attention that writes to the states that it reads.

Shapes: B rows, T queries of width Q, S source tokens of width M, K key width.
"""

from __future__ import annotations

from torch import Tensor, nn

from dialog.config.components import Component
from dialog.models.attention.content import build_content_scorer
from dialog.models.kernels.linear import Linear


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
