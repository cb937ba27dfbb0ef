"""Hypotheses of a beam search, and how they are ranked.

Shapes: n sources that are still searched, K beams, G groups, L = max_length, C ended hypotheses of
    a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from dialog.models.state import Rows

Normalisation = Literal["gnmt", "average"]
NOTHING = -1
"""Placeholder of a token that is not decoded yet."""


@dataclass(frozen=True)
class LengthPenalty:
    """Rank of a hypothesis: its log-probability divided by lp(l)^alpha, with l its length, end
    token included.

    ``gnmt``: lp(l) = (5 + l) / 6 (Wu et al. 2016, equation 14); ``average``: lp(l) = l.
    """

    alpha: float = 1.0
    normalisation: Normalisation = "average"

    def __post_init__(self) -> None:
        if self.normalisation not in ("gnmt", "average"):
            raise ValueError(f"normalisation is {self.normalisation!r}; choose gnmt or average")
        if not 0 <= self.alpha < float("inf"):
            raise ValueError(
                f"length_penalty is {self.alpha}; give a number from 0, which ranks by"
                " log-probability"
            )

    def check(self, longest: int) -> None:
        """Raise ValueError if the divisor for the longest length is not a number of float32, the
        type of ranks.
        """
        try:
            divisor = self(longest)
        except OverflowError:
            divisor = float("inf")
        if divisor > torch.finfo(torch.float32).max:
            raise ValueError(
                f"length_penalty is {self.alpha}, too large for {longest} tokens; give a smaller"
                " number"
            )

    def __call__(self, length: int) -> float:
        """Return the divisor for a length."""
        base = (5 + length) / 6 if self.normalisation == "gnmt" else float(length)
        return float(base**self.alpha)


@dataclass(frozen=True, kw_only=True)
class BeamSettings:
    """Arguments that the beam searches share.

    Attributes:
        width: Number of beginnings, of all groups together.
        candidates: Number of responses.
        length_penalty: alpha of `LengthPenalty`; 0 ranks by log-probability.
        normalisation: gnmt or average, see `LengthPenalty`.
    """

    width: int = 5
    candidates: int = 1
    length_penalty: float = 1.0
    normalisation: Normalisation = "average"

    def __post_init__(self) -> None:
        """Raise ValueError for an impossible value."""
        if self.width < 1:
            raise ValueError(f"width is {self.width}; give at least 1")
        if not 1 <= self.candidates <= self.width:
            raise ValueError(
                f"candidates is {self.candidates}; give a number from 1 to width {self.width}"
            )
        self.penalty()

    def penalty(self) -> LengthPenalty:
        """Return the divisor of ranks."""
        return LengthPenalty(self.length_penalty, self.normalisation)


@dataclass(frozen=True)
class Beams(Rows):
    """Open hypotheses [n, K, ...] of each source."""

    tokens: Tensor  # [n, K, L + 1]
    scores: Tensor  # [n, K, L + 1], of each token
    totals: Tensor  # [n, K], sum of preferences; -inf = no hypothesis


class BeamExtension(NamedTuple):
    """Best extensions of the beams by one token; rows count through all beams of all sources."""

    totals: Tensor  # [n, K] of open hypotheses, -inf = none
    rows: Tensor  # [n, K], the beam that each extends
    tokens: Tensor  # [n, K]
    ended_totals: Tensor  # [n, K] of hypotheses that end now, -inf = none
    ended_rows: Tensor  # [n, K]
    ended_beams: Tensor  # [n, K], True = this beam has ended


@dataclass(frozen=True)
class Ended(Rows):
    """The best ended hypotheses [n, G, C, ...] of each group, best first."""

    tokens: Tensor  # [n, G, C, L + 1]
    scores: Tensor  # [n, G, C, L + 1]
    ranks: Tensor  # [n, G, C], -inf = none yet
    count: Tensor  # [n, G], of all that have ended
