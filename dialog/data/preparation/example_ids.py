"""Ids of the examples of a prepared split."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from dialog.data.preparation.blocks import blocks
from dialog.data.preparation.filtering import filter_block, survey_filters
from dialog.data.preparation.job import Job

Names = Callable[[str, Collection[int]], Mapping[int, str]]
"""Maps a split and some of its rows to the examples' ids."""


def example_ids(job: Job, split: str, rows: Collection[int]) -> dict[int, str]:
    """Return the ids ``<dialogue>#<response>`` of rows; reads the corpus again, up to the last of
    them.
    """
    wanted = set(rows)
    ids = dict[int, str]()
    for row, id in enumerate(_ids(job, split)):
        if row in wanted:
            ids[row] = id
            if len(ids) == len(wanted):
                break
    return ids


def _ids(job: Job, split: str) -> Iterator[str]:
    filters = (
        survey_filters(job.build_filters(), job.corpus.dialogues, job.rules)
        if split == "train"
        else []
    )
    for start, entries in blocks(job.corpus.dialogues(split)):
        for dialogue, pairs in filter_block(start, entries, job.rules, filters).dialogues:
            yield from (f"{dialogue.id}#{response}" for _, response in pairs)
