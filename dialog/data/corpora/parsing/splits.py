"""Divide a corpus into train, validation and test, by a hash or by official lists."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping

from dialog.data.dialogue import Dialogue, Entry, Malformed

REMAINDERS = {"train": range(8), "validation": range(8, 9), "test": range(9, 10)}


def split_by_hash(entries: Iterable[Entry], split: str) -> Iterator[Entry]:
    """Yield the entries of one split: about 80 % train, 10 % validation, 10 % test.

    The split of a dialogue is the SHA-256 of its author (`meta["author"]`) or, if that is null or empty, of its turns'
    texts joined by line feeds, as an integer, modulo 10: 0 to 7 is train, 8 validation, 9 test. So dialogues of one
    author and dialogues with equal texts are in one split, and adding dialogues moves none. Malformed entries count as
    train.
    """
    for entry in entries:
        if isinstance(entry, Malformed):
            if split == "train":
                yield entry
        elif _remainder(entry) in REMAINDERS[split]:
            yield entry


def split_by_lists(
    entries: Iterable[Entry], split: str, lists: Mapping[str, str], others: str | None = None
) -> Iterator[Entry]:
    """Yield the entries of one split; `lists` maps the ids of dialogues to their splits.

    Unlisted dialogues are in the split `others`; None divides them by `split_by_hash`. Malformed entries count as
    train.
    """
    for entry in entries:
        official = lists.get(entry.id, others) if isinstance(entry, Dialogue) else "train"
        if official is None:
            yield from split_by_hash([entry], split)
        elif official == split:
            yield entry


def _remainder(dialogue: Dialogue) -> int:
    author = dialogue.meta.get("author")
    return sha256_number("\n".join(turn.text for turn in dialogue.turns) if author in (None, "") else str(author)) % 10


def sha256_number(text: str) -> int:
    """Return the SHA-256 of a text as an integer below 2**256."""
    return int(hashlib.sha256(text.encode()).hexdigest(), 16)
