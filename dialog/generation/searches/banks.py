"""Beam search with required words: the hypotheses that stay in the beam.

Shapes: n sources that are still searched, K beams, s beams of a group, V vocabulary, U usual tokens
of the words, c candidates of a beam.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dialog.generation.constraints import NEVER, SLACK, Constraints, ConstraintState
from dialog.generation.required_words import UNREACHABLE, RequiredWords
from dialog.generation.searches.largest import largest


@dataclass(frozen=True)
class Banks:
    """Dynamic beam allocation of Post & Vilar 2018 (NAACL), vectorised as by Hu et al. 2019
    (NAACL).

    The bank of a hypothesis is the number of tokens that it still needs until it contains all
    words. Hypotheses compete within their bank: first the best of each bank gets a place, then the
    second best of each, and so on until all places are filled; banks that need fewer tokens come
    first. Hypotheses that need more tokens than max_length leaves come after all others.
    """

    words: RequiredWords
    states: Tensor  # [n, K], of the automaton before the next token
    missing: Tensor  # [n, K], sets of words
    left: int  # tokens up to max_length
    end: int

    @classmethod
    def of(
        cls, constraints: Constraints, progress: ConstraintState, beams: int, length: int
    ) -> Banks | None:
        """Return the banks of hypotheses from the progress [n K] of their constraints; None without
        required words.
        """
        if constraints.required is None:
            return None
        states = progress.required.view(-1, beams)
        missing = progress.missing.view(-1, beams)
        return cls(
            constraints.required, states, missing, constraints.max_length - length, constraints.end
        )

    def candidates(self, preferences: Tensor, choices: int) -> tuple[Tensor, Tensor]:
        """Return the best extensions of each beam and those by usual tokens [n, s, c], and their
        tokens.

        Args:
            preferences: Of the next token [n, s, V].
            choices: Number of best extensions.
        """
        best, tokens = largest(preferences, choices)
        usual = self.words.usual.expand(*tokens.shape[:2], -1)  # [n, s, U]
        twice = (usual.unsqueeze(-1) == tokens.unsqueeze(2)).any(-1)
        more = preferences.gather(-1, usual).masked_fill(twice, NEVER)
        return torch.cat([best, more], -1), torch.cat([tokens, usual], -1)

    def order(self, sums: Tensor, tokens: Tensor, start: int) -> Tensor:
        """Return the candidates [n, s c] of a group in the order in which they get places.

        Args:
            sums: Sums of preferences [n, s c], -inf = no candidate.
            tokens: The next token of each candidate [n, s, c].
            start: First beam of the group.
        """
        beams = slice(start, start + tokens.shape[1])
        states, missing = (part[:, beams].unsqueeze(-1) for part in (self.states, self.missing))
        needed = self.words.needed_after(states, missing, tokens).flatten(1)  # [n, s c]
        late = (needed > 0) & (needed + SLACK >= self.left)
        banks = needed + (late + 2 * (sums == NEVER)) * UNREACHABLE
        best = sums.argsort(dim=1, descending=True, stable=True)
        # bank by bank, by sum within each
        order = best.gather(1, banks.gather(1, best).argsort(dim=1, stable=True))
        banks = banks.gather(1, order)
        count = banks.shape[1]
        # within the bank
        position = torch.arange(count, device=banks.device) - torch.searchsorted(banks, banks)
        key = (banks // UNREACHABLE * count + position) * UNREACHABLE + banks % UNREACHABLE
        return order.gather(1, key.argsort(dim=1, stable=True))

    def unmet(self) -> Tensor:
        """Return which hypotheses [n, K] lack a word."""
        return self.words.needed[self.states, self.missing] > 0

    def drop_unmet_ends(self, preferences: Tensor, totals: Tensor, ranks: Tensor) -> None:
        """Mask the end tokens of hypotheses that lack a word, unless their source has no others.

        Args:
            preferences: Of the next token [n, K, V], changed in place; a row in which all else is
                masked ends.
            totals: Of the hypotheses [n, K], -inf = none.
            ranks: Of ended hypotheses [n, C], -inf = none.
        """
        ends = preferences[..., self.end]  # [n, K], a view
        blocked = self.unmet() & (ends > NEVER)
        others = ((totals > NEVER) & ~blocked).any(1) | (ranks > NEVER).any(1)
        ends.masked_fill_(blocked & others.unsqueeze(1), NEVER)

    def drop_unmet(self, totals: Tensor, ranks: Tensor) -> Tensor:
        """Return the totals of hypotheses [n, K] without those that lack a word, unless their
        source has no others.
        """
        unmet = self.unmet()
        others = ((totals > NEVER) & ~unmet).any(1) | (ranks > NEVER).any(1)
        return totals.masked_fill(unmet & others.unsqueeze(1), NEVER)
