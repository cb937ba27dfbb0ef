"""An attention that writes to what it reads.

Shapes: B rows, T queries of width Q, S source tokens of width M, K key width.
"""

from __future__ import annotations

from torch import Tensor, nn

from dialog.config.components import Component
from dialog.models.attention.content import build_content


class InteractiveScorer(nn.Module):
    """The scores of a scorer of content; after a read, state j becomes k_j (1 - a_j F) + a_j U; Meng et al. 2016, 3.2.

    F = sigmoid(W_F s) and U = sigmoid(W_U s), with the weights a of that read and the next query as s: in Bahdanau's
    form, and with input feeding, the first state that knows what was read. So it is written just before the next read.
    """

    def __init__(self, query_size: int, key_size: int, scorer: Component) -> None:
        super().__init__()
        self.scorer = build_content(scorer, query_size=query_size, key_size=key_size)
        self.forget = nn.Linear(query_size, key_size)
        self.update = nn.Linear(query_size, key_size)

    def keys(self, states: Tensor) -> Tensor:
        """The inner scorer's keys."""
        keys: Tensor = self.scorer.keys(states)  # [B, S, K]
        return keys

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores [B, T, S]."""
        scores: Tensor = self.scorer(query, keys)
        return scores

    def write(self, states: Tensor, query: Tensor, last: Tensor) -> Tensor:
        """States [B, S, M] after a read with the weights last [B, S]; query [B, 1, Q]."""
        forget: Tensor = self.forget(query).sigmoid()  # [B, 1, M]
        update: Tensor = self.update(query).sigmoid()  # [B, 1, M]
        read = last.unsqueeze(-1).to(update.dtype)  # [B, S, 1]
        return states * (1 - read * forget) + read * update  # [B, S, M]
