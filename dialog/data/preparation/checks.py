"""Checks of the merged shards."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dialog.data.corpora import Corpus
from dialog.data.dialogue import Dialogue
from dialog.data.examples import NO_RESPONSES
from dialog.data.preparation.encoding import mark
from dialog.data.preparation.filtering import Remarks
from dialog.errors import UserError

MARKS_AT_ONCE = 1 << 22
"""Dialogues whose ids are compared in one pass."""
DIALOGUES = 100
SPEAKERS = 10
"""Dialogues searched for speakers, and speakers listed, in an error."""


def check_records(records: Mapping[str, int], merged: Mapping[str, int]) -> None:
    """Check that a pass over the corpus read as many records as the shards hold together."""
    for split, number in records.items():
        if number != merged[split]:
            raise UserError(
                f"{split}: the corpus changed while it was read: one pass read {number:,}"
                f" dialogues, the shards hold {merged[split]:,}; prepare it again"
            )


def check_examples(corpus: Corpus, split: str, counts: Mapping[str, int], remarks: Remarks) -> None:
    """Check that a split has examples."""
    if counts["examples"]:
        return
    if counts[f"dropped dialogues: {NO_RESPONSES}"]:
        entries = islice(corpus.dialogues(split), DIALOGUES)
        dialogues = (entry for entry in entries if isinstance(entry, Dialogue))
        speakers = sorted({turn.speaker for dialogue in dialogues for turn in dialogue.turns})
        fix = (
            "set data.responder to one of the speakers:"
            f" {', '.join(map(repr, speakers[:SPEAKERS]))}"
        )
    elif not counts["dialogues read"]:
        fix = (
            "a corpus without splits is split 8 : 1 : 1 into train, validation and test, by a hash"
            " of each dialogue's author, else of its text: provide more authors or dialogues, or"
            " set data.path to a folder with one file per split"
        )
    else:
        first = _first(remarks, "malformed", "empty")
        fix = f"provide dialogues of at least two turns, and filters that keep some{first}"
    raise UserError(f"the split {split} gives no example ({_listed(counts)}); {fix}")


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{key} {value:,}" for key, value in counts.items() if value) or "it is empty"


def check_counts(
    split: str, counts: Mapping[str, int], remarks: Remarks, max_dropped: float
) -> None:
    """Check that at most a fraction `max_dropped` of a split's dialogues and turns is malformed or
    empty.
    """
    for unit, reasons in (("dialogues", ("malformed", "empty")), ("turns", ("empty",))):
        dropped = sum(counts[f"dropped {unit}: {reason}"] for reason in reasons)
        read = counts[f"{unit} read"]
        if dropped > max_dropped * read:
            raise UserError(
                f"{split}: {dropped:,} of {read:,} {unit} are {' or '.join(reasons)}, more than"
                f" data.max_dropped={max_dropped:g} allows; fix them or raise"
                f" it{_first(remarks, *reasons)}"
            )


def _first(remarks: Remarks, *kinds: str) -> str:
    return next((f"; first: {remark}" for kind in kinds for remark in remarks.get(kind, ())), "")


def check_ids(corpus: Corpus, split: str, marks: Path) -> None:
    """Check that dialogues with the same id in a split have the same text, and delete the file of
    marks.

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
                    f"{entry.place or entry.id}: the id {entry.id!r} occurs twice in {split}, with"
                    f" other text at {first.place or 'an earlier place'}; give each dialogue its"
                    " own id"
                )


def ambiguous(marks: NDArray[np.uint64]) -> int | None:
    """Return the mark of an id with two texts, or None; `marks` [N, 2] are read in chunks, one hash
    class a pass.
    """
    passes = 1 + len(marks) // MARKS_AT_ONCE
    starts = range(0, len(marks), MARKS_AT_ONCE)
    for number in range(passes):
        chunks = (marks[start : start + MARKS_AT_ONCE] for start in starts)
        ids, texts = np.concatenate(
            [chunk[chunk[:, 0] % np.uint64(passes) == number] for chunk in chunks]
        ).T
        order = np.argsort(ids, kind="stable")
        ids = ids[order]
        texts = texts[order]
        conflicts = np.flatnonzero((ids[1:] == ids[:-1]) & (texts[1:] != texts[:-1]))
        if len(conflicts):
            return int(ids[conflicts[0]])
    return None
