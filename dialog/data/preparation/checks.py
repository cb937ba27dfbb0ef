"""What is refused when the shards of a preparation are joined."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dialog.data.corpora import Corpus
from dialog.data.dialogue import Dialogue
from dialog.data.examples import NO_RESPONSES
from dialog.data.preparation.blocks import Remarks
from dialog.data.preparation.writer import mark
from dialog.errors import UserError

MARKS_AT_ONCE = 1 << 22
"""Dialogues whose ids are held against one another at a time."""
SEEN, SEEN_SPEAKERS = 100, 10
"""Dialogues that are looked through for who speaks, and speakers that are named."""


def check_records(given: Mapping[str, int], joined: Mapping[str, int]) -> None:
    """Refuse a corpus that gave a pass another number of records than the shards hold together."""
    for split, records in given.items():
        if records != joined[split]:
            raise UserError(
                f"{split}: the corpus changed while it was read: one pass found {records:,} dialogues, the shards hold "
                f"{joined[split]:,}; prepare it again"
            )


def check_examples(corpus: Corpus, split: str, counts: Mapping[str, int], remarks: Remarks) -> None:
    """Refuse a split without examples."""
    if counts["examples"]:
        return
    if counts[f"dropped dialogues: {NO_RESPONSES}"]:
        seen = (entry for entry in islice(corpus.dialogues(split), SEEN) if isinstance(entry, Dialogue))
        speakers = sorted({turn.speaker for dialogue in seen for turn in dialogue.turns})
        mend = f"set data.responder to one who answers, of {', '.join(map(repr, speakers[:SEEN_SPEAKERS]))}"
    elif not counts["dialogues read"]:
        mend = (
            "a corpus without splits is dealt out in tenths, by a hash of each dialogue's author, else of its words (8 "
            "to train, 1 to validation, 1 to test): give more authors or dialogues, or data.path a folder with a file "
            "a split"
        )
    else:
        first = _first(remarks, "malformed", "empty")
        mend = f"give dialogues of two turns or more, and filters that leave some{first}"
    raise UserError(f"the split {split} gives no example ({_listed(counts)}); {mend}")


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{key} {value:,}" for key, value in counts.items() if value) or "it is empty"


def check_counts(split: str, counts: Mapping[str, int], remarks: Remarks, max_dropped: float) -> None:
    """Refuse a split of which too much was malformed or empty."""
    for what, reasons in (("dialogues", ("malformed", "empty")), ("turns", ("empty",))):
        dropped = sum(counts[f"dropped {what}: {reason}"] for reason in reasons)
        read = counts[f"{what} read"]
        if dropped > max_dropped * read:
            raise UserError(
                f"{split}: {dropped:,} of {read:,} {what} are {' or '.join(reasons)}, more than data.max_dropped="
                f"{max_dropped:g} allows; mend them or raise it{_first(remarks, *reasons)}"
            )


def _first(remarks: Remarks, *kinds: str) -> str:
    return next((f"; first: {said}" for kind in kinds for said in remarks.get(kind, ())), "")


def check_ids(corpus: Corpus, split: str, marks: Path) -> None:
    """Refuse two dialogues of one id in a split, unless they say the same; the file of marks goes.

    Raises:
        UserError: with the places of both.
    """
    id = ambiguous(np.memmap(marks, "<u8", mode="r").view(np.ndarray).reshape(-1, 2))
    marks.unlink()
    first: Dialogue | None = None
    for entry in corpus.dialogues(split) if id is not None else ():
        if isinstance(entry, Dialogue) and mark(entry.id) == id:
            first = first or entry
            if (first.turns, first.facts) != (entry.turns, entry.facts):
                raise UserError(
                    f"{entry.place or entry.id}: the id {entry.id!r} occurs twice in {split}, for other words at "
                    f"{first.place or 'an earlier place'}; give each dialogue its own"
                )


def ambiguous(marks: NDArray[np.uint64]) -> int | None:
    """The mark of an id that stands with different words [N, 2], if there is one; looked for among some at a time."""
    parts = 1 + len(marks) // MARKS_AT_ONCE
    chunks = range(0, len(marks), MARKS_AT_ONCE)
    for part in range(parts):
        some = (marks[start : start + MARKS_AT_ONCE] for start in chunks)
        ids, words = np.concatenate([each[each[:, 0] % np.uint64(parts) == part] for each in some]).T
        order = np.argsort(ids, kind="stable")
        ids, words = ids[order], words[order]
        found = np.flatnonzero((ids[1:] == ids[:-1]) & (words[1:] != words[:-1]))
        if len(found):
            return int(ids[found[0]])
    return None
