"""Bahdanau's additive scorer.

Shapes: B rows, T queries of width Q, S source tokens of width M, K key width.
"""

from __future__ import annotations

from torch import Tensor, nn

from dialog.models.kernels.additive_energies import additive_energies
from dialog.models.kernels.linear import Linear


class AdditiveScorer(nn.Module):
    """score(q, k) = v . tanh(W q + U k); Bahdanau et al. 2015, appendix A.1.2 (W_a, U_a, v_a).

    Parameters ``query.weight`` is W, ``key.weight`` is U, ``energy.weight`` is v; no biases.
    """

    def __init__(self, query_size: int, key_size: int, size: int) -> None:
        super().__init__()
        self.query = Linear(query_size, size, bias=False)
        self.key = Linear(key_size, size, bias=False)
        self.energy = nn.Linear(size, 1, bias=False)

    def keys(self, states: Tensor) -> Tensor:
        """U k of every source token."""
        keys: Tensor = self.key(states)  # [B, S, K]
        return keys

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores [B, T, S]."""
        return additive_energies(self.query(query), keys, self.energy.weight)  # [B, T, S]
