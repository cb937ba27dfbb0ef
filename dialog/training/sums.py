"""Sums over the tokens of an optimizer step, on all ranks."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from dialog.ranks import world_size
from dialog.training.distributed.collectives import mean_over_ranks, sum_over_ranks


class StepSums:
    """Sums over the micro-batches of one optimizer step, on all ranks.

    The law: with a sum s over n target tokens in each micro-batch of each rank, the step's gradient
    is that of sum s / sum n, for any split of its examples into micro-batches and ranks. A mean of
    means is not.

    The number of tokens is known only after the last micro-batch. So each sum is divided by the
    tokens of the first one (mean over ranks), and `finish` returns the factor that corrects the
    gradient. Ranks communicate only at the first micro-batch and in `finish`.
    """

    def __init__(self) -> None:
        self.unit: float | Tensor = 0.0
        self.sums: dict[str, Tensor] = {}  # [2] each: sum and number of tokens

    def add(
        self, objective: Tensor, terms: Mapping[str, tuple[Tensor, int | Tensor]], tokens: int
    ) -> Tensor:
        """Add a micro-batch; return the loss to backpropagate.

        Args:
            objective: Its sum over target tokens.
            terms: By name, sums to be logged and the number of tokens of each.
            tokens: Its target tokens.
        """
        if not self.sums:
            self.unit = mean_over_ranks(tokens, objective)
        for name, (value, count) in {**terms, "objective": (objective, tokens)}.items():
            term = torch.stack([value.detach(), torch.ones_like(value) * count])
            self.sums[name] = self.sums[name] + term if name in self.sums else term
        return objective / self.unit

    def finish(self, micro_batches: int) -> tuple[dict[str, Tensor], float | Tensor]:
        """Return the step's means, and the factor that makes the accumulated gradient the step's.

        Args:
            micro_batches: The divisor that Lightning applied to each gradient; the last step of an
                epoch may have fewer micro-batches.
        """
        dtype = self.sums["objective"].dtype
        # [N, 2]
        summed = sum_over_ranks(torch.stack([term.to(dtype) for term in self.sums.values()]))
        totals = dict(zip(self.sums, summed, strict=True))
        factor = self.unit * micro_batches * world_size() / totals["objective"][1]
        return {name: total / count.clamp(min=1) for name, (total, count) in totals.items()}, factor
