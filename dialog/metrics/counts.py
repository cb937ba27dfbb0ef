"""Metrics of item counts as `torchmetrics.Metric`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from dialog.metrics.scores.counts import CountScore


class CountMetric(CountScore, Metric):
    """Metric that is a function of the number of occurrences of each item in all responses.

    No sum counts the distinct items of several processes. The state is therefore the hash of each
    item, the hashes of all processes are concatenated, and equal hashes are counted. It takes 8
    bytes per item.
    """

    full_state_update = False
    hashes: list[Tensor] | Tensor

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_state("hashes", [], dist_reduce_fx="cat")
        self.reset()

    def update(self, responses: Sequence[str]) -> None:
        """Add responses, raw text."""
        hashes = torch.from_numpy(self.items_of(responses).hashes)
        self.hashes = [*self.hashes, hashes.to(self.device)]

    def compute(self) -> Tensor:
        """Return `value` of all counts, in float64."""
        counts = torch.unique(dim_zero_cat(self.hashes), return_counts=True)[1]
        return torch.tensor(
            float(self.value(counts.cpu().numpy())), dtype=torch.float64, device=self.device
        )

    def reset(self) -> None:
        """Forget all responses; a process without any has hashes of the same type as the others."""
        super().reset()
        self.hashes = [torch.empty(0, dtype=torch.int64, device=self.device)]
