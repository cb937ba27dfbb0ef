"""A fixed sample of a split, drawn by whole dialogues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import groupby

from dialog.data.dialogue import Example

Group = tuple[bytes, list[Example]]


def draw_dialogues(examples: Iterable[Example], most: int) -> list[Example]:
    """Return the examples of as many whole dialogues as have at most `most` examples together.

    Dialogues are taken in the order of the SHA-256 of their ids, so the sample is the same in every
    run, whatever the order of the split. The first dialogue is always taken. The examples of a
    dialogue must be adjacent; memory does not grow with the split.
    """
    taken: list[Group] = []
    size = 0
    for dialogue_id, group in groupby(examples, key=lambda example: example.dialogue_id):
        rows = list(group)
        taken.append((sha256(dialogue_id.encode()).digest(), rows))
        size += len(rows)
        if size > 4 * most:
            taken = list(_first(taken, most))
            size = sum(len(rows) for _, rows in taken)
    return [example for _, rows in _first(taken, most) for example in rows]


def _first(groups: Sequence[Group], most: int) -> Iterator[Group]:
    """Yield groups in the order of their hash until their sizes exceed `most`; at least one."""
    size = 0
    for digest, rows in sorted(groups, key=lambda group: group[0]):
        size += len(rows)
        if size > most and size > len(rows):
            return
        yield digest, rows
