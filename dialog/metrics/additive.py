"""Metrics of sums as `torchmetrics.Metric`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from dialog.metrics.scores.additive import COARSE, FINE, AdditiveScore, Statistic, Statistics


class AdditiveMetric(AdditiveScore, Metric):
    """Metric that is a function of exact sums of statistics over responses.

    Numbers may be on a device, such as losses of a training step.
    """

    full_state_update = False
    sums: Tensor  # [size, 2], float64 in any precision of the module

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_state("sums", torch.zeros(self.size, 2, dtype=torch.float64), dist_reduce_fx="sum")

    def add(self, statistics: Statistics) -> None:
        """Add the statistics [N, size] of responses; does not wait for the device."""
        rows = torch.as_tensor(statistics, device=self.device)
        self.sums = self.sums + exact_tensor_sums(rows.detach())

    def compute(self) -> Tensor:
        """Return `value` of all sums, in float64."""
        sums = self.sums.sum(-1).tolist()
        return torch.tensor(float(self.value(*sums)), dtype=torch.float64, device=self.device)

    def _apply(
        self, fn: Callable[[Tensor], Tensor], exclude_state: Sequence[str] = ""
    ) -> AdditiveMetric:
        """Move the sums to another device; they stay float64 if the module is converted to a lower
        precision.
        """
        super()._apply(lambda tensor: fn(tensor).to(tensor.dtype), exclude_state)
        return self

    def _columns(self, *statistics: Statistic) -> Tensor:
        """Return numbers as float64 [N, size]; a single number beside several is that of each
        response.
        """
        columns = [self._column(statistic) for statistic in statistics]
        length = max(map(len, columns), key=lambda size: size != 1)
        return torch.stack([column.expand(length) for column in columns], dim=1)

    def _column(self, statistic: Statistic) -> Tensor:
        """Return float64 [N], or [1] for a single number; does not wait for the device."""
        if isinstance(statistic, int | float):
            return torch.full((1,), statistic, dtype=torch.float64, device=self.device)
        return (
            torch.as_tensor(statistic, dtype=torch.float64, device=self.device).detach().flatten()
        )


def exact_tensor_sums(statistics: Tensor) -> Tensor:
    """Return the sums of the coarse and of the fine parts of statistics [N, size]: float64 [size,
    2].
    """
    coarse = (statistics * COARSE).round() / COARSE
    # the rest of infinity is not a number
    fine = ((statistics - coarse).nan_to_num() * FINE).round() / FINE
    return torch.stack([coarse.sum(0), fine.sum(0)], dim=1)
