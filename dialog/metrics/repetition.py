"""Repetition, similarity and copies of responses, as `torchmetrics.Metric` classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from dialog.metrics.additive import AdditiveMetric
from dialog.metrics.scores.counts import hash_item
from dialog.metrics.scores.repetition import RepetitionScore, TrainCopyRatioScore, self_bleu
from dialog.metrics.words import words

STATES = ("lengths", "responses", "words")


class Repetition(RepetitionScore, AdditiveMetric):
    """Share of responses that repeat an n-gram: `RepetitionScore`."""


class TrainCopyRatio(TrainCopyRatioScore, AdditiveMetric):
    """Share of copies of training responses: `TrainCopyRatioScore`."""


class SelfBLEU(Metric):
    """Self-BLEU: `SelfBLEUScore`. The state is a 64-bit hash of each word and of each response.

    Args:
        sample: Largest number of responses that are compared.
    """

    full_state_update = False
    higher_is_better = False
    words: list[Tensor] | Tensor
    lengths: list[Tensor] | Tensor
    responses: list[Tensor] | Tensor

    def __init__(self, sample: int = 500, **options: Any) -> None:
        if sample < 2:
            raise ValueError(f"sample is {sample}; give at least 2")
        super().__init__(**options)
        self.sample = sample
        for name in STATES:
            self.add_state(name, [], dist_reduce_fx="cat")
        self.reset()

    def update(self, responses: Sequence[str]) -> None:
        """Add responses, raw text."""
        rows = [tuple(words(response.lower())) for response in responses]
        self.words = [
            *self.words,
            self._integers(hash_item((word,)) for row in rows for word in row),
        ]
        self.lengths = [*self.lengths, self._integers(map(len, rows))]
        self.responses = [*self.responses, self._integers(map(hash_item, rows))]

    def compute(self) -> Tensor:
        """Return the mean, in float64."""
        lengths, hashes, everything = (dim_zero_cat(getattr(self, name)).cpu() for name in STATES)
        ends = lengths.cumsum(0).tolist()
        rows = [
            everything[end - length : end].tolist()
            for end, length in zip(ends, lengths.tolist(), strict=True)
        ]
        value = self_bleu(rows, hashes.tolist(), self.sample)
        return torch.tensor(value, dtype=torch.float64, device=self.device)

    def reset(self) -> None:
        """Forget all responses; a process without any has states of the same type as the others."""
        super().reset()
        for name in STATES:
            setattr(self, name, [self._integers(())])

    def _integers(self, values: Iterable[int]) -> Tensor:
        return torch.tensor(list(values), dtype=torch.int64, device=self.device)
