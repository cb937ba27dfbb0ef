"""Divide a corpus into train, validation and test, by a hash or by official lists."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping

from dialog.data.dialogue import Dialogue, Entry, Malformed, with_warning

REMAINDERS = {"train": range(8), "validation": range(8, 9), "test": range(9, 10)}


def split_by_hash(entries: Iterable[Entry], split: str) -> Iterator[Entry]:
    """Yield the entries of one split: about 80 % train, 10 % validation, 10 % test.

    The split of a dialogue is the SHA-256 of its author (`meta["author"]`) or, if that is null or
    empty, of its turns' texts joined by line feeds, as an integer, modulo 10: 0 to 7 is train, 8
    validation, 9 test. So dialogues of one author and dialogues with equal texts are in one split,
    and adding dialogues moves none. Malformed entries count as train.
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

    Unlisted dialogues are in the split `others`; None divides them by `split_by_hash`. Malformed
    entries count as train. If the corpus lacks some, but not all, of the dialogues listed for the
    split, the last one gets a warning.
    """
    listed = {id for id, name in lists.items() if name == split}
    missing = set(listed)
    held: list[Entry] = []
    for entry in entries:
        official = lists.get(entry.id, others) if isinstance(entry, Dialogue) else "train"
        chosen = (
            list(split_by_hash([entry], split))
            if official is None
            else [entry] * (official == split)
        )
        if chosen:
            yield from held
            held = chosen
            missing -= {entry.id for entry in chosen if isinstance(entry, Dialogue)}
    if 0 < len(missing) < len(listed):
        number = f"{len(missing):,} of {len(listed):,} dialogues that are listed for {split}"
        warning = f"{number} are missing, such as {min(missing)!r}; download the corpus again"
        held = [
            with_warning(entry, warning) if isinstance(entry, Dialogue) else entry for entry in held
        ]
    yield from held


def _remainder(dialogue: Dialogue) -> int:
    author = dialogue.meta.get("author")
    return (
        sha256_number(
            "\n".join(turn.text for turn in dialogue.turns) if author in (None, "") else str(author)
        )
        % 10
    )


def sha256_number(text: str) -> int:
    """Return the SHA-256 of a text as an integer below 2**256."""
    return int(hashlib.sha256(text.encode()).hexdigest(), 16)
