"""Merge: concatenate the shards' blocks in corpus order, check the result, and sort it by
length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path

import numpy as np

from dialog.data.dialogue import SPLITS
from dialog.data.preparation.checks import check_counts, check_examples, check_ids, check_records
from dialog.data.preparation.draft import DRAFT, read_records, total
from dialog.data.preparation.encoding import MARKS, Appender
from dialog.data.preparation.filtering import Remarks, add_remarks
from dialog.data.preparation.job import Job, Progress, no_progress
from dialog.data.preparation.shards import read_shard, shard_folder
from dialog.data.store.length_classes import write_classes
from dialog.data.store.manifest import TOKENIZER, array_file
from dialog.data.tokenizers.tokenizer import Tokenizer
from dialog.errors import UserError


def merge(
    job: Job, shards: Path, count: int, folder: Path, progress: Progress = no_progress
) -> dict[str, object]:
    """Merge `count` shards into the files of `folder`; return the manifest's entries about them.

    Raises:
        UserError: a shard is missing, or as `dialog.data.preparation.checks`.
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
    corpus_size = total(read_records(folders[0]))
    for split in SPLITS:
        before = sum(counts["dialogues read"] for counts, _ in splits.values())
        report = partial(_report, progress, before, corpus_size)
        splits[split] = _merge_split(folders, folder, split, len(tokenizer), report)
    merged = {split: counts["dialogues read"] for split, (counts, _) in splits.items()}
    for reader in (shards / DRAFT, *folders):
        check_records(read_records(reader), merged)
    for split, (counts, remarks) in splits.items():
        check_examples(job.corpus, split, counts, remarks)
        check_counts(split, counts, remarks, job.max_dropped)
        check_ids(job.corpus, split, array_file(folder, split, MARKS))
        write_classes(folder, split)
    return {
        "vocabulary": len(tokenizer),
        "tokenizer": tokenizer.fingerprint,
        "splits": {split: dict(sorted((+counts).items())) for split, (counts, _) in splits.items()},
        "remarks": {split: remarks for split, (_, remarks) in splits.items()},
    }


def _merge_split(
    shards: Sequence[Path], folder: Path, split: str, vocabulary: int, report: Callable[[int], None]
) -> tuple[Counter[str], Remarks]:
    """Append the blocks of all shards in corpus order; shift offsets and lines, which a block
    counts from 0.
    """
    counts = Counter[str]()
    remarks = Remarks()
    readers = cycle([read_shard(shard, split, vocabulary) for shard in shards])
    with Appender(folder, split, vocabulary) as files:
        files.append({"offsets": np.zeros(1)})
        ids = lines = 0
        while block := next(next(readers), None):
            arrays = block.arrays
            counts += block.counts
            add_remarks(remarks, block.remarks)
            files.append(
                {
                    **arrays,
                    "offsets": arrays["offsets"] + ids,
                    "examples": arrays["examples"] + lines,
                }
            )
            ids = ids + len(arrays["ids"])
            lines = lines + len(arrays["speakers"])
            report(counts["dialogues read"])
    return counts, remarks


def _report(progress: Progress, before: int, corpus_size: int, read: int) -> None:
    progress("joining", before + read, corpus_size)
