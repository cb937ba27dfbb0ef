"""What a whole split adds up to."""

from __future__ import annotations

import torch
from lightning.pytorch.strategies import Strategy
from torch import Tensor


class SplitSums:
    """Sums over the batches of a split, in float64 whatever precision trains; no batch waits for the device."""

    def __init__(self) -> None:
        self.parts: list[Tensor] = []

    def add(self, nll: Tensor, correct: Tensor, tokens: int, size: int) -> None:
        """A batch's -log p and correct tokens, target tokens and bytes of responses."""
        counts = (torch.full((), each, dtype=torch.float64, device=nll.device) for each in (tokens, size))
        self.parts.append(torch.stack([nll.double(), correct.double(), *counts]))

    def take(self, strategy: Strategy) -> list[float]:
        """Each sum over all batches and processes; then begin anew."""
        whole, self.parts = torch.stack(self.parts).sum(0), []
        summed: Tensor = strategy.reduce(whole, reduce_op="sum")
        return list(summed.tolist())
