"""Scorers that use the position of a source token and earlier attention weights.

Shapes: B rows, T queries of width Q, S source tokens of width M, K key width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dialog.config.components import Component
from dialog.models.attention.additive import additive_energies
from dialog.models.attention.content import build_content_scorer
from dialog.models.kernels.linear import Linear

BILINEAR: Component = {"name": "bilinear"}


class LocationScorer(nn.Module):
    """score_j = v . tanh(W q + V k_j + U f_j + b), f = F * [a; c]; Chorowski et al. 2015, equations
    8 and 9.

    F convolves the weights a of the last step and their sum c over all earlier steps (coverage, See
    et al. 2017).
    """

    needs = frozenset({"last", "coverage"})

    def __init__(
        self, query_size: int, key_size: int, size: int, *, filters: int = 10, width: int = 5
    ) -> None:
        super().__init__()
        if width < 1 or width % 2 == 0:
            raise ValueError(f"width must be odd and at least 1, not {width}")
        if filters < 1:
            raise ValueError(f"filters must be at least 1, not {filters}")
        self.query = Linear(query_size, size)
        self.key = Linear(key_size, size, bias=False)
        self.filters = nn.Conv1d(2, filters, width, padding=width // 2, bias=False)
        self.location = Linear(filters, size, bias=False)
        self.energy = nn.Linear(size, 1, bias=False)

    def keys(self, states: Tensor) -> Tensor:
        """V k of every source token."""
        keys: Tensor = self.key(states)  # [B, S, K]
        return keys

    def forward(self, query: Tensor, keys: Tensor, last: Tensor, coverage: Tensor) -> Tensor:
        """Scores [B, T, S]; last and coverage [B, S]."""
        past = torch.stack([last, coverage], 1).to(keys.dtype)  # [B, 2, S]
        features = self.filters(past).transpose(1, 2)  # [B, S, filters]
        # [B, T, S]
        return additive_energies(
            self.query(query), keys + self.location(features), self.energy.weight
        )


class LocalScorer(nn.Module):
    """score_j - (j - p)^2 / (2 sigma^2) where |j - p| <= D, p = (n - 1) sigmoid(v . tanh(W q)),
    sigma = D / 2.

    Luong et al. 2015, 3.2 (local-p), with n real tokens, j counted from 0, and D the ``window``.
    There the Gaussian multiplies the softmax; here it is a term of the scores, so the weights sum
    to 1.
    """

    needs = frozenset({"mask"})

    def __init__(
        self,
        query_size: int,
        key_size: int,
        size: int,
        *,
        window: int = 10,
        scorer: Component = BILINEAR,
    ) -> None:
        super().__init__()
        if window < 1:
            raise ValueError(f"window must be at least 1, not {window}")
        self.scorer = build_content_scorer(scorer, query_size=query_size, key_size=key_size)
        self.place = nn.Sequential(
            Linear(query_size, size, bias=False), nn.Tanh(), nn.Linear(size, 1, bias=False)
        )
        self.window = window

    def keys(self, states: Tensor) -> Tensor:
        """Keys of the inner scorer."""
        keys: Tensor = self.scorer.keys(states)  # [B, S, K]
        return keys

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
        """Scores [B, T, S], -inf outside the window; mask [B, S]."""
        scores: Tensor = self.scorer(query, keys)  # [B, T, S]
        exact = torch.promote_types(scores.dtype, torch.float32)  # bfloat16 rounds 257 to 256
        end = (mask.sum(1) - 1).clamp(min=0).to(exact)[:, None, None]  # [B, 1, 1]
        center = end * self.place(query).to(exact).sigmoid()  # [B, T, 1]
        # [B, T, S]
        distance = torch.arange(keys.shape[1], device=keys.device, dtype=exact) - center
        local: Tensor = scores.to(exact) - 2 * (distance / self.window).square()
        return local.masked_fill(distance.abs() > self.window, -torch.inf)
