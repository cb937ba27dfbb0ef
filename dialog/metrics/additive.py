"""Metrics that are functions of sums: the sums are exact, so neither the order nor the number of processes matters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torchmetrics import Metric

Statistic = Tensor | float | Sequence[float]
"""One number, or one for each response or batch."""
COARSE, FINE = 2.0**16, 2.0**48
"""A statistic is rounded to a multiple of 1 / FINE and split at 1 / COARSE."""


class AdditiveMetric(Metric):
    """Metric that is a function of sums of statistics over responses.

    Each statistic is rounded to a multiple of 2^-48 and split into a multiple of 2^-16 and a rest. Sums of either are
    exact in float64 (below 2^37, for up to 4 million updates), so the value is bit-identical for any order of the
    responses, any batches and any number of processes.

    A subclass sets `size`, the number of its statistics, passes them to `add` in `update`, and defines `value` of their
    sums. So any subset or resample of responses can be scored from the statistics of each.
    """

    full_state_update = False
    size: ClassVar[int]
    value: ClassVar[Callable[..., float]]
    """From the sums of the statistics, weighted or not, to the metric."""
    sums: Tensor  # [size, 2], float64 in any precision of the module

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - of torchmetrics.Metric
        super().__init__(**options)
        self.add_state("sums", torch.zeros(self.size, 2, dtype=torch.float64), dist_reduce_fx="sum")

    def add(self, *statistics: Statistic) -> None:
        """Add the statistics, in the order of `value`; does not wait for the device."""
        self.sums = self.sums + torch.stack([self._exact_sum(statistic) for statistic in statistics])

    def compute(self) -> Tensor:
        """Return `value` of all sums, in float64."""
        sums = self.sums.sum(-1).tolist()
        return torch.tensor(self.value(*sums), dtype=torch.float64, device=self.device)

    def _exact_sum(self, statistic: Statistic) -> Tensor:
        """Return the sums of the coarse and of the fine parts [2]."""
        if isinstance(statistic, int | float):
            values = torch.full((1,), statistic, dtype=torch.float64, device=self.device)
        else:
            values = torch.as_tensor(statistic, dtype=torch.float64, device=self.device).detach().flatten()
        coarse = (values * COARSE).round() / COARSE
        fine = ((values - coarse).nan_to_num() * FINE).round() / FINE  # the rest of infinity is not a number
        return torch.stack([coarse.sum(), fine.sum()])

    def _apply(self, fn: Callable[[Tensor], Tensor], exclude_state: Sequence[str] = "") -> AdditiveMetric:
        """Move the sums to another device; they stay float64 if the module is converted to a lower precision."""
        super()._apply(lambda tensor: fn(tensor).to(tensor.dtype), exclude_state)
        return self


class ResponseMetric(AdditiveMetric):
    """Additive metric whose statistics are computed from a response and its reference."""

    def statistics(self, response: str, reference: str) -> Sequence[float]:
        """Return the sufficient statistics of one response."""
        raise NotImplementedError

    def update(self, responses: Sequence[str], references: Sequence[str]) -> None:
        """Add responses and their references, raw text in the same order.

        Raises:
            ValueError: the numbers of responses and references differ.
        """
        rows = [self.statistics(*pair) for pair in zip(responses, references, strict=True)]
        if rows:
            self.add(*zip(*rows, strict=True))


def ratio(numerator: float, denominator: float, *, empty: float = float("nan")) -> float:
    """Return numerator / denominator, or `empty` if the denominator is 0."""
    return numerator / denominator if denominator else empty
