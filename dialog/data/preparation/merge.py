"""Merge: concatenate the shards' blocks in corpus order, check the result, and sort it by
length.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dialog.data.corpora import Corpus
from dialog.data.dialogue import SPLITS, Dialogue
from dialog.data.examples import NO_RESPONSES
from dialog.data.preparation.division import read_division
from dialog.data.preparation.draft import DRAFT, read_records, total
from dialog.data.preparation.encoding import MARKS, mark
from dialog.data.preparation.filtering import Remarks, add_remarks
from dialog.data.preparation.job import Job, Progress, no_progress
from dialog.data.preparation.shards import read_shard, records_read, shard_folder
from dialog.data.store.arrays import ArrayFiles, ArrayType, AscendingWriter, array_file
from dialog.data.store.length_classes import LENGTHS, write_classes
from dialog.data.store.manifest import ARRAYS, ASCENDING, TOKENIZER, ascending_files
from dialog.data.text_matching.spilled import SortedRuns
from dialog.data.tokenizers.tokenizer import Tokenizer
from dialog.errors import UserError

MARKS_AT_ONCE = 1 << 20
"""Dialogues whose ids are read in one step."""
DIALOGUES = 100
SPEAKERS = 10
"""Dialogues searched for speakers, and speakers listed, in an error."""


def merge(
    job: Job, shards: Path, count: int, folder: Path, progress: Progress = no_progress
) -> dict[str, object]:
    """Merge `count` shards into the files of `folder`; return the manifest's entries about them.

    Raises:
        UserError: a shard is missing, or as the checks below.
    """
    folders = [shard_folder(shards, index, count) for index in range(count)]
    for index, shard in enumerate(folders):
        if not shard.is_dir():
            raise UserError(
                f"{shards}: shard {index} of {count} is missing; run it with --shard"
                f" {index}/{count}"
            )
    tokenizer = Tokenizer.load(shards / DRAFT / TOKENIZER)
    tokenizer.save(folder / TOKENIZER)
    splits: dict[str, tuple[Counter[str], Remarks]] = {}
    arrays: dict[str, dict[str, ArrayType]] = {}
    division = read_division(shards / DRAFT)
    records = [read_records(shard) for shard in folders]
    corpus_size = total(records_read(records, count, division))
    for split in SPLITS:
        before = sum(counts["dialogues read"] for counts, _ in splits.values())
        report = partial(_report, progress, before, corpus_size)
        splits[split], arrays[split] = _merge_split(folders, folder, split, report)
    merged = {split: counts["dialogues read"] for split, (counts, _) in splits.items()}
    check_records(read_records(shards / DRAFT), merged)
    for read in records:
        whole = {split: read[split] for split in SPLITS if not division.is_divided(split)}
        check_records(whole, merged)
    for split, (counts, remarks) in splits.items():
        check_examples(job.corpus, split, counts, remarks)
        check_counts(split, counts, remarks, job.max_dropped)
        lengths = arrays[split].pop(LENGTHS)
        marks = arrays[split].pop(MARKS)
        check_ids(job.corpus, split, array_file(folder, split, MARKS), marks)
        arrays[split] |= write_classes(folder, split, lengths)
        array_file(folder, split, LENGTHS).unlink()
    return {
        "vocabulary": len(tokenizer),
        "tokenizer": tokenizer.fingerprint,
        "splits": {split: dict(sorted((+counts).items())) for split, (counts, _) in splits.items()},
        "remarks": {split: remarks for split, (_, remarks) in splits.items()},
        "arrays": arrays,
    }


def _merge_split(
    shards: Sequence[Path], folder: Path, split: str, report: Callable[[int], None]
) -> tuple[tuple[Counter[str], Remarks], dict[str, ArrayType]]:
    """Append the blocks of all shards in corpus order; shift the ascending arrays, which a block
    counts from 0. Return counts, remarks, and the types of the arrays.
    """
    counts = Counter[str]()
    remarks = Remarks()
    plain = (*ARRAYS, LENGTHS, MARKS)
    pairs = {name: ascending_files(name) for name in ASCENDING}
    blocks = heapq.merge(*(read_shard(shard, split) for shard in shards), key=attrgetter("place"))
    with ArrayFiles(folder, split, (*plain, *chain(*pairs.values()))) as files:
        ascending = {
            name: AscendingWriter(files.writers[bases], files.writers[distances])
            for name, (bases, distances) in pairs.items()
        }
        ascending["offsets"].append(np.zeros(1, np.int64))
        ids = lines = 0
        for block in blocks:
            arrays = block.arrays
            counts += block.counts
            add_remarks(remarks, block.remarks)
            for name in plain:
                files.writers[name].append(arrays[name])
            ascending["offsets"].append(arrays["offsets"].astype(np.int64) + ids)
            ascending["responses"].append(arrays["responses"].astype(np.int64) + lines)
            ids = ids + len(arrays["ids"])
            lines = lines + len(arrays["speakers"])
            report(counts["dialogues read"])
    return (counts, remarks), files.kinds


def _report(progress: Progress, before: int, corpus_size: int, read: int) -> None:
    progress("joining", before + read, corpus_size)


# ------------------------------------------------------------------ checks


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
    listed = ", ".join(f"{key} {value:,}" for key, value in counts.items() if value)
    raise UserError(f"the split {split} gives no example ({listed or 'it is empty'}); {fix}")


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


def check_ids(corpus: Corpus, split: str, marks: Path, kind: ArrayType) -> None:
    """Check that dialogues with the same id in a split have the same text, and delete the file of
    marks.

    Raises:
        UserError: with the places of both.
    """
    id = ambiguous(np.memmap(marks, kind.type, mode="r").view(np.ndarray).reshape(-1, 2))
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
    """Return the mark of an id with two texts, or None; `marks` [N, 2] are sorted on disk."""
    runs = SortedRuns()
    for start in range(0, len(marks), MARKS_AT_ONCE):
        ids, texts = marks[start : start + MARKS_AT_ONCE].T
        runs.add(ids, texts, np.zeros((len(ids), 2)))
    for pairs in runs.ranges():
        conflicts = np.flatnonzero(pairs.first[1:] == pairs.first[:-1])
        if len(conflicts):
            return int(pairs.first[conflicts[0]])
    return None
