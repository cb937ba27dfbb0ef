"""What the micro-batches of an optimizer step come to, on all processes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from dialog.ranks import world_size
from dialog.training.distributed.collectives import mean_over_ranks, sum_over_ranks


class Window:
    """The micro-batches between two optimizer steps: sums over tokens, of which all processes make one mean.

    The law: with a sum s over n target tokens in each micro-batch of each process, the gradient of a step is that of
    sum s / sum n, however its examples are shared among micro-batches and processes; a mean of means is not.

    How many tokens there are is known at the last micro-batch only. So each sum is divided by the tokens of the first
    (of all processes), and at the end `whole` says by what the gradient is to be multiplied. Until then no process asks
    another for anything.
    """

    def __init__(self) -> None:
        self.unit: float | Tensor = 0.0
        self.tokens = 0
        self.sums: dict[str, Tensor] = {}  # [2] each: what was added up, and over how many

    def lower(self, objective: Tensor, tokens: int) -> Tensor:
        """What a micro-batch is to lower, of its sum over so many target tokens."""
        if not self.tokens:
            self.unit = mean_over_ranks(tokens, objective)
        self.tokens += tokens
        self.add({"objective": objective}, tokens)
        return objective / self.unit

    def add(self, sums: Mapping[str, Tensor], count: int | Tensor) -> None:
        """Sums of a micro-batch over so many tokens, of which a mean is to be logged."""
        for name, value in sums.items():
            new = torch.stack([value.detach(), torch.ones_like(value) * count])
            self.sums[name] = self.sums[name] + new if name in self.sums else new

    def whole(self, micro_batches: int) -> tuple[dict[str, Tensor], float | Tensor]:
        """The means over the whole step, and what its gradient lacks.

        Args:
            micro_batches: By how many Lightning has divided each gradient, though the last window of an epoch may have
                fewer.
        """
        dtype = self.sums["objective"].dtype
        whole = sum_over_ranks(torch.stack([each.to(dtype) for each in self.sums.values()]))  # [N, 2]
        totals = dict(zip(self.sums, whole, strict=True))
        lacks = self.unit * micro_batches * world_size() / totals["objective"][1]
        return {name: total / count.clamp(min=1) for name, (total, count) in totals.items()}, lacks
