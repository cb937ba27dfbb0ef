"""Beam search in groups, and after a sampled beginning.

Shapes: N sources, n sources that are still searched, K beams, V vocabulary, L = max_length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from dialog.generation.constraints import NEVER, Constraints
from dialog.generation.searches.beam import Beam
from dialog.generation.searches.hypotheses import Beams, BeamSettings
from dialog.generation.searches.sampling import Sampling, draw


@dataclass(frozen=True, kw_only=True)
class DiverseBeamSettings(BeamSettings):
    """Arguments of `Beam`, with a width that the default number of groups divides."""

    width: int = 6


class DiverseBeam(Beam):
    """Beam search in groups that avoid each other's tokens (Vijayakumar et al. 2018, AAAI).

    Each group is a beam search of B = ``width / groups`` beams, which ends once B of its own
    hypotheses have ended. The groups search one after the other at each step: a token's preference
    falls by ``diversity`` for each beam of an earlier group that has just chosen it. A response of
    several groups is one candidate, so there may be fewer candidates than asked for.

    Args:
        settings: With the width of all groups together; the candidates are the best of all groups,
            by the sums of preferences.
        groups: Number of groups; divides the width.
        diversity: In nats.
    """

    Settings = DiverseBeamSettings

    def __init__(
        self,
        settings: BeamSettings,
        *,
        constraints: Constraints,
        groups: int = 3,
        diversity: float = 0.5,
    ) -> None:
        super().__init__(settings, constraints=constraints)
        if groups < 1 or self.width % groups:
            raise ValueError(f"groups is {groups}; give a divisor of width {self.width}")
        if not 0 <= diversity < inf:
            raise ValueError(f"diversity is {diversity}; give a number from 0")
        self.groups = groups
        # a group ends by its own hypotheses alone, since later groups avoid its tokens
        self.kept = self.size
        self.diversity = diversity


class DelayedBeam(Beam):
    """Draw the first ``delay`` tokens of each beam, then search (Massarelli et al. 2020).

    Args:
        settings: As of `Beam`.
        delay: Number of tokens that are drawn.
        top_k: Tokens that are drawn from; 0 for all.
        seed: Seed of the draws, see `Sampling`.
    """

    def __init__(
        self,
        settings: BeamSettings,
        *,
        constraints: Constraints,
        delay: int = 2,
        top_k: int = 10,
        seed: int = 1,
    ) -> None:
        super().__init__(settings, constraints=constraints)
        if not 1 <= delay <= constraints.max_length:
            raise ValueError(
                f"delay is {delay}; give a number from 1 to max_length {constraints.max_length}"
            )
        self.delay = delay
        self.sampling = Sampling(constraints=constraints, top_k=top_k, seed=seed)

    def _draws(self, source: Tensor, ids: Sequence[str]) -> Tensor:
        return self.sampling.uniform(source, ids, self.width).view(len(source), self.width, -1)

    def _only_drawn(self, preferences: Tensor, draws: Tensor, beams: Beams, length: int) -> Tensor:
        """Mask all tokens that are not drawn; a beam that is equal to an earlier one is dropped."""
        flat = preferences.flatten(0, 1)
        # [n, K, 1]
        chosen = (
            draw(self.sampling.truncate(flat), draws.flatten()).view_as(beams.totals).unsqueeze(-1)
        )
        own = torch.cat([beams.tokens[..., :length], chosen], -1)  # [n, K, length + 1]
        # [n, K, 1]
        equal = (own.unsqueeze(1) == own.unsqueeze(2)).all(-1).tril(-1).any(-1, keepdim=True)
        values = preferences.gather(-1, chosen).masked_fill(equal, NEVER)
        return torch.full_like(preferences, NEVER).scatter_(-1, chosen, values)
