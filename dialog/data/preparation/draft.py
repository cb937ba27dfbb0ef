"""The draft: the tokenizer, the filters' surveys and the parts of the corpus, which all shards
share.

It is a function of the job alone, built in one pass over the corpus per filter and one for the
tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from dialog.atomic import new_folder
from dialog.config.components import build
from dialog.data.corpora import Corpus
from dialog.data.dialogue import SPLITS, Entry
from dialog.data.preparation.division import Division, divide, write_division
from dialog.data.preparation.filtering import (
    BLOCK,
    SurveyedFilter,
    UsableDialogues,
    blocks,
    filter_block,
)
from dialog.data.preparation.job import Job, Progress, no_progress
from dialog.data.store.manifest import TOKENIZER
from dialog.data.tokenizers import TOKENIZERS

DRAFT = "draft"
RECORDS = "records.json"
"""Number of records of each split that was read for the draft, or for a shard."""


def write_draft(job: Job, shards: Path, count: int = 1, progress: Progress = no_progress) -> None:
    """Write `<shards>/draft/`, unless it exists: tokenizer, surveys, parts, and the number of
    records read per split.
    """
    if (shards / DRAFT).is_dir():
        return
    with new_folder(shards / DRAFT) as folder:
        records: dict[str, int] = {}
        division = divide(job.corpus, count)
        for number, filter in enumerate(job.build_filters()):
            read = partial(
                _read, job.corpus, records, progress, f"filter {job.filters[number]['name']}"
            )
            splits = {split: UsableDialogues(read, job.rules, split) for split in SPLITS}
            np.save(folder / f"filter-{number}.npy", filter.survey(splits), allow_pickle=False)
        filters = read_filters(job, folder)
        texts = _texts(job, division, filters, records, progress)
        build(TOKENIZERS, job.tokenizer, texts=chain(texts, _reported(progress))).save(
            folder / TOKENIZER
        )
        if filters or not division.is_divided("train"):
            for _ in texts:
                pass  # count also the records that the tokenizer did not read
        write_division(folder, division)
        (folder / RECORDS).write_text(json.dumps(records))


def read_filters(job: Job, folder: Path) -> list[SurveyedFilter]:
    """Return the job's filters with their surveys from a draft."""
    names = [str(component["name"]) for component in job.filters]
    surveys = (
        np.load(folder / f"filter-{number}.npy", allow_pickle=False) for number in range(len(names))
    )
    return [
        SurveyedFilter(*filter) for filter in zip(names, job.build_filters(), surveys, strict=True)
    ]


def read_records(folder: Path) -> dict[str, int]:
    """Return the number of records by split that a draft or a shard has read."""
    return dict(json.loads((folder / RECORDS).read_text()))


def total(records: Mapping[str, int]) -> int:
    """Return the number of records of all splits."""
    return sum(records.values())


def _read(
    corpus: Corpus, records: dict[str, int], progress: Progress, task: str, split: str
) -> Iterator[Entry]:
    """Yield the records of a split, report progress against the previous pass, and store their
    number in `records`.
    """
    task = task if split == "train" else f"{task}, {split}"
    progress(task, 0, records.get(split))
    read = 0
    for read, entry in enumerate(corpus.dialogues(split), start=1):
        yield entry
        if read % BLOCK == 0:
            progress(task, read, records.get(split))
    records[split] = read
    progress(task, read, read)


def _texts(
    job: Job,
    division: Division,
    filters: Sequence[SurveyedFilter],
    records: dict[str, int],
    progress: Progress,
) -> Iterator[str]:
    """Yield the facts and turns of the training dialogues that the rules and filters keep; report
    progress after each block, and store the number of records in `records`.
    """
    task = "learning the tokenizer"
    progress(task, 0, records.get("train"))
    read = 0
    for start, entries in blocks(division.training_entries(job.corpus)):
        if start:
            progress(task, start, records.get("train"))
        for dialogue, _ in filter_block(start, entries, job.rules, filters).dialogues:
            yield from (line.text for line in (*dialogue.facts, *dialogue.turns))
        read = start + len(entries)
    records["train"] = read
    progress(task, read, read)


def _reported(progress: Progress) -> Iterator[str]:
    """Yield no text; report, when the last one was read, that the tokenizer is trained, which has
    no progress of its own.
    """
    progress("training the tokenizer", 0, None)
    yield from ()
