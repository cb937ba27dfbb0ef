"""Group consecutive lines or rows of a file into blocks, each of which is a dialogue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from dialog.data.corpora.parsing.records import records
from dialog.data.dialogue import Dialogue, Entry
from dialog.data.reading.files import LONGEST_LINE
from dialog.errors import UserError

T = TypeVar("T")

Block = list[tuple[str, T]]
"""Consecutive (place, item) pairs of one dialogue."""

MOST_TURNS = 100_000
MOST_CHARACTERS = LONGEST_LINE
"""A block beyond either limit lacks its separators and is malformed; its items are not kept in
memory.
"""


def block_records(
    items: Iterable[tuple[str, T]],
    begins: Callable[[Block[T], T], bool],
    parse: Callable[[Block[T], str], Dialogue | None],
) -> Iterator[Entry]:
    """Yield `records` of blocks, each under the place of its first item.

    `begins(block, item)` returns whether `item` starts a new block after `block`.
    """

    def parse_bounded(sized: tuple[Block[T], int], place: str) -> Dialogue | None:
        block, size = sized
        for count, limit, unit in (
            (len(block), MOST_TURNS, "lines"),
            (size, MOST_CHARACTERS, "characters"),
        ):
            if count > limit:
                raise UserError(
                    f"{place}: a dialogue of more than {limit:,} {unit}; check the corpus's format"
                )
        return parse(block, place)

    return records(_blocks(items, begins), parse_bounded)


def _blocks(
    items: Iterable[tuple[str, T]], begins: Callable[[Block[T], T], bool]
) -> Iterator[tuple[str, tuple[Block[T], int]]]:
    """Yield (place, (block, characters)); beyond the limits only the last item is kept, for
    `begins`.
    """
    block: Block[T] = []
    size = 0
    for place, item in items:
        if block and begins(block, item):
            yield block[0][0], (block, size)
            block = []
            size = 0
        del block[MOST_TURNS:]
        if size > MOST_CHARACTERS:
            block[-1] = block[0]
        block.append((place, item))
        size += _characters(item)
    if block:
        yield block[0][0], (block, size)


def _characters(item: object) -> int:
    """Return the length of a line, or the total length of a row's cells."""
    if isinstance(item, dict):
        return sum(map(len, item.values()))
    return len(item if isinstance(item, str | bytes) else str(item))
