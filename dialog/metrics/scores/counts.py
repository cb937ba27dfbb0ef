"""Functions of how often each item occurs in all responses, such as the n-grams of distinct-n."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dialog.metrics.scores.additive import Numbers
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


class CountScore:
    """Function of the number of occurrences of each item in all responses.

    Items are counted by a 64-bit hash of each: exact unless two items collide (probability 3e-8 for
    a million distinct items).

    A subclass defines the `items` of a response and `value` of the counts. So any subset or
    resample of responses can be scored from `items_of` them.
    """

    higher_is_better: bool | None = None
    value: ClassVar[Callable[..., Numbers]]
    """From the counts of each item [..., types], zeros included, to the metric [...]; 0 without
    items.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)

    @abstractmethod
    def items(self, response: str) -> Iterable[Item]:
        """Return the items of a response, given as raw text."""

    def items_of(self, responses: Sequence[str]) -> Items:
        """Return the hashes of the items of responses, raw text."""
        hashes = [self.hashes_of(response) for response in responses]
        sizes = np.array([len(row) for row in hashes], dtype=np.int64)
        return Items(np.array([item for row in hashes for item in row], dtype=np.int64), sizes)

    def hashes_of(self, response: str) -> Sequence[int]:
        """Return the hashes of the items of a response."""
        return [hash_item(item) for item in self.items(response)]


class NgramScore(CountScore):
    """Score of the n-grams of all responses; an n-gram never spans two responses.

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
        return ngrams(response, self.n)

    def hashes_of(self, response: str) -> Sequence[int]:
        """Return the hashes of the n-grams; remembered, since several metrics count them."""
        return ngram_hashes(response, self.n)


class WholeResponseScore(CountScore):
    """Score of the responses as a whole, lower-cased and without differences in white space."""

    def items(self, response: str) -> Iterable[Item]:
        """Return the whole response."""
        return (tuple(words(response.lower())),)


@lru_cache(maxsize=1 << 16)
def hash_item(item: Item) -> int:
    """Return 64 bits; words contain no separator, since it is white space."""
    digest = blake2b("\x1f".join(item).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


@lru_cache(maxsize=1 << 16)  # a comparison of two systems counts 62,000 twice
def ngram_hashes(response: str, n: int) -> tuple[int, ...]:
    """Return the hashes of the n-grams of a response."""
    return tuple(map(hash_item, ngrams(response, n)))


def ngrams(response: str, n: int) -> Iterable[Item]:
    """Return the n-grams of a response, given as raw text."""
    tokens = words(response.lower())
    return zip(*(tokens[start:] for start in range(n)), strict=False)
