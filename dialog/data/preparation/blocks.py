"""Blocks of consecutive records: the unit that is tokenised at once and assigned to a shard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from dialog.data.dialogue import Entry, Malformed

BLOCK = 1024
"""Maximal records of a block."""
SIZE = 2**24
OVERHEAD = 256
"""Characters after which a block is full, counting each turn and each value of `meta` as 256 more:
this bounds the memory that long dialogues take.
"""


def blocks(entries: Iterable[Entry]) -> Iterator[tuple[int, list[Entry]]]:
    """Yield (index of the first record, records) of each block, in order."""
    records: list[Entry] = []
    start = size = 0
    for index, entry in enumerate(entries):
        if len(records) == BLOCK or size >= SIZE:
            yield start, records
            records = []
            start = index
            size = 0
        records.append(entry)
        size += _size(entry)
    if records:
        yield start, records


def _size(entry: Entry) -> int:
    if isinstance(entry, Malformed):
        return len(entry.message)
    size = len(entry.id) + sum(
        OVERHEAD + len(line.speaker) + len(line.text) for line in (*entry.facts, *entry.turns)
    )
    return size + _meta_size(entry.meta) if entry.meta else size


def _meta_size(meta: object) -> int:
    """Return the size of `meta`, which may be nested as deeply as JSON: without recursion."""
    size = 0
    values = [meta]
    while values:
        value = values.pop()
        size += OVERHEAD
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, Mapping):
            values += (*value.keys(), *value.values())
        elif isinstance(value, list | tuple):
            values += value
    return size
