"""Metrics that are functions of how often each item occurs in all responses, such as the n-grams of
distinct-n.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from dialog.metrics.additive import Numbers
from dialog.metrics.words import words

Item = tuple[str, ...]
"""Words, lower-cased."""


class Items(NamedTuple):
    """Hashes of the items of N responses, one response after the other [M], and the number of each
    response [N].
    """

    hashes: NDArray[np.int64]
    sizes: NDArray[np.int64]

    def counts(self, rows: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Return the occurrences of each distinct item [types], in all responses or in those
        selected by a mask [N].
        """
        hashes = self.hashes if rows is None else self.hashes[np.repeat(rows, self.sizes)]
        return np.unique(hashes, return_counts=True)[1]


class CountMetric(Metric):
    """Metric that is a function of the number of occurrences of each item in all responses.

    No sum counts the distinct items of several processes. The state is therefore a 64-bit hash of
    each item, the hashes of all processes are concatenated, and equal hashes are counted: exact
    unless two items collide (probability 3e-8 for a million distinct items). It takes 8 bytes per
    item.

    A subclass defines the `items` of a response and `value` of the counts. So any subset or
    resample of responses can be scored from `items_of` them.
    """

    full_state_update = False
    higher_is_better = None
    value: ClassVar[Callable[..., Numbers]]
    """From the counts of each item [..., types], zeros included, to the metric [...]; 0 without
    items.
    """
    hashes: list[Tensor] | Tensor

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_state("hashes", [], dist_reduce_fx="cat")
        self.reset()

    @abstractmethod
    def items(self, response: str) -> Iterable[Item]:
        """Return the items of a response, given as raw text."""

    def items_of(self, responses: Sequence[str]) -> Items:
        """Return the hashes of the items of responses, raw text."""
        hashes = [[hash_item(item) for item in self.items(response)] for response in responses]
        sizes = np.array([len(row) for row in hashes], dtype=np.int64)
        return Items(np.array([item for row in hashes for item in row], dtype=np.int64), sizes)

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


class NgramCountMetric(CountMetric):
    """Metric of the n-grams of all responses; an n-gram never spans two responses.

    Args:
        n: Words of an n-gram.
    """

    def __init__(self, n: int, **options: Any) -> None:
        if n < 1:
            raise ValueError(f"n is {n}; give at least 1")
        super().__init__(**options)
        self.n = n

    def items(self, response: str) -> Iterable[Item]:
        """Return the n-grams."""
        tokens = words(response.lower())
        return zip(*(tokens[start:] for start in range(self.n)), strict=False)


class WholeResponseMetric(CountMetric):
    """Metric of the responses as a whole, lower-cased and without differences in white space."""

    def items(self, response: str) -> Iterable[Item]:
        """Return the whole response."""
        return (tuple(words(response.lower())),)


@lru_cache(maxsize=1 << 16)
def hash_item(item: Item) -> int:
    """Return 64 bits; words contain no separator, since it is white space."""
    digest = blake2b("\x1f".join(item).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)
