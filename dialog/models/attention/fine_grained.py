"""Attention with a weight for each feature of the source.

Shapes: B rows, T queries of width Q, S source tokens of width M, K key width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dialog.models.kernels.linear import Linear


class FineGrainedScorer(nn.Module):
    """score_d(q, k) = v_d . tanh(W q + U k) for each feature d of the source; Choi, Cho & Bengio
    2018, section 3.

    The context is c_d = sum_j a_jd k_jd: with all v_d equal it is Bahdanau's. Energies take B T S K
    values.
    """

    per_feature = True

    def __init__(self, query_size: int, key_size: int, size: int) -> None:
        super().__init__()
        self.query = Linear(query_size, size, bias=False)
        self.key = Linear(key_size, size, bias=False)
        self.energy = Linear(size, key_size, bias=False)

    def keys(self, states: Tensor) -> Tensor:
        """U k of every source token."""
        keys: Tensor = self.key(states)  # [B, S, K]
        return keys

    def values(self, states: Tensor) -> Tensor:
        """Each feature as a head of width 1."""
        return states.transpose(1, 2).unsqueeze(-1)  # [B, M, S, 1]

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores [B, M, T, S]."""
        mixed = torch.tanh(self.query(query).unsqueeze(2) + keys.unsqueeze(1))  # [B, T, S, K]
        scores: Tensor = self.energy(mixed).permute(0, 3, 1, 2)  # [B, M, T, S]
        return scores

    def join(self, contexts: Tensor) -> Tensor:
        """Contexts [B, T, M] of contexts [B, M, T, 1]."""
        return contexts.squeeze(-1).transpose(1, 2)
