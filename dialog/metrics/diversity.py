"""Diversity and length of responses.

Except for the length, the values depend on the number of responses (distinct-1 of the human responses of DailyDialog:
.203 for 500 responses, .070 for 6,740). Compare equal numbers of responses only, next to the value of the references.
Words are lower-cased and split at white space; each letter of a script without spaces is a word.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from dialog.metrics.additive import AdditiveMetric, ratio
from dialog.metrics.words import words


class DistinctRatio(Metric):
    """Distinct items / items of all responses, in [0, 1]; 0 without items.

    No sum counts the distinct items of several processes. The state is therefore a 64-bit hash of each item, the
    hashes of all processes are concatenated, and distinct hashes are counted: exact unless two items collide
    (probability 3e-8 for a million distinct items). It takes 8 bytes per item.
    """

    full_state_update = False
    higher_is_better = None
    hashes: list[Tensor] | Tensor

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - of torchmetrics.Metric
        super().__init__(**options)
        self.add_state("hashes", [], dist_reduce_fx="cat")
        self.reset()

    @abstractmethod
    def items(self, response: Sequence[str]) -> Iterable[tuple[str, ...]]:
        """Return the items of a response, given as words."""

    def update(self, responses: Sequence[str]) -> None:
        """Add responses, raw text."""
        items = (item for response in responses for item in self.items(words(response.lower())))
        hashes = torch.tensor([_hash(item) for item in items], dtype=torch.int64, device=self.device)
        self.hashes = [*self.hashes, hashes]

    def compute(self) -> Tensor:
        """Return the ratio, in float64."""
        hashes = dim_zero_cat(self.hashes)
        value = ratio(len(torch.unique(hashes)), len(hashes), empty=0.0)
        return torch.tensor(value, dtype=torch.float64, device=self.device)

    def reset(self) -> None:
        """Forget all responses; a process without any has hashes of the same type as the others."""
        super().reset()
        self.hashes = [torch.empty(0, dtype=torch.int64, device=self.device)]


class DistinctN(DistinctRatio):
    """Distinct-n = distinct n-grams / n-grams of all responses. Li et al. (2016), NAACL.

    An n-gram never spans two responses.

    Args:
        n: Words of an n-gram.
    """

    def __init__(self, n: int, **options: Any) -> None:  # noqa: ANN401 - of torchmetrics.Metric
        if n < 1:
            raise ValueError(f"n is {n}; give at least 1")
        super().__init__(**options)
        self.n = n

    def items(self, response: Sequence[str]) -> Iterable[tuple[str, ...]]:
        """Return the n-grams."""
        return zip(*(response[start:] for start in range(self.n)), strict=False)


class UniqueRatio(DistinctRatio):
    """Unique-output ratio = distinct responses / responses."""

    def items(self, response: Sequence[str]) -> Iterable[tuple[str, ...]]:
        """Return the whole response."""
        return (tuple(response),)


class LengthMean(AdditiveMetric):
    """Mean length = words / responses; 0 without responses."""

    higher_is_better = None
    size = 2

    def update(self, responses: Sequence[str]) -> None:
        """Add responses, raw text."""
        self.add(sum(len(words(response)) for response in responses), len(responses))

    def value(self, length: float, responses: float) -> float:
        """Return the mean."""
        return ratio(length, responses, empty=0.0)


def _hash(item: Sequence[str]) -> int:
    """Return 64 bits; words contain no separator, since it is white space."""
    digest = blake2b("\x1f".join(item).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)
