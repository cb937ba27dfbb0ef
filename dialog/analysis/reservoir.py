"""Uniform samples of streams."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")
SEED = 0


class Reservoir(Generic[Item]):
    """Uniform sample of a stream of unknown length (Vitter 1985, algorithm R); the same for the
    same stream.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0
        self.items: list[Item] = []
        self.random = random.Random(SEED)

    def add(self, item: Item) -> None:
        """Add the next item of the stream."""
        self.count += 1
        if len(self.items) < self.limit:
            self.items.append(item)
        elif (position := self.random.randrange(self.count)) < self.limit:
            self.items[position] = item

    def watch(self, stream: Iterable[Item]) -> Iterator[Item]:
        """Yield a stream and add its items."""
        for item in stream:
            self.add(item)
            yield item
