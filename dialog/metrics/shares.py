"""Shares of examples that an evaluation has marked: responses copied from training, and references ranked first."""

from __future__ import annotations

import torch
from torch import Tensor

from dialog.metrics.additive import AdditiveMetric, Numbers, Statistic, ratio


class TrainCopyRatio(AdditiveMetric):
    """Share of responses that are equal to a response of the training split up to white space, in [0, 1].

    The argument of `update` is 1 for a copy, else 0.
    """

    higher_is_better = None
    size = 2

    def statistics_of(self, train_copy: Statistic) -> Tensor:
        """Return whether each response is a copy, and 1: float64 [N, 2]."""
        return self._columns(train_copy, 1)

    def update(self, train_copy: Statistic) -> None:
        """Add responses."""
        self.add(self.statistics_of(train_copy))

    def value(self, copies: Numbers, responses: Numbers) -> Numbers:
        """Return the share."""
        return ratio(copies, responses)


class Hits(AdditiveMetric):
    """Hits@1 of 20: share of examples whose reference is ranked first among 20 references, in [0, 1]; chance is 0.05.

    The argument of `update` is the rank from 1, not a number for examples that are not ranked. Candidates are ranked
    by their mean log-likelihood per token given the context (`dialog.analysis.candidates`).
    """

    higher_is_better = True
    size = 2

    def statistics_of(self, candidate_rank: Statistic) -> Tensor:
        """Return whether each reference is first, and whether it is ranked: float64 [N, 2]."""
        ranks = self._columns(candidate_rank)
        return torch.cat([ranks == 1, ~ranks.isnan()], dim=1).double()

    def update(self, candidate_rank: Statistic) -> None:
        """Add examples."""
        self.add(self.statistics_of(candidate_rank))

    def value(self, hits: Numbers, ranked: Numbers) -> Numbers:
        """Return the share."""
        return ratio(hits, ranked)
