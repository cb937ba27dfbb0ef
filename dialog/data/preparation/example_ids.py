"""Which example a row of a prepared split is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from dialog.data.dialogue import SPLITS
from dialog.data.preparation.blocks import Sieve, Surveyed, blocks, choose
from dialog.data.preparation.shards import Job

Names = Callable[[str, Collection[int]], Mapping[int, str]]
"""From a split and rows of it to the examples' ids."""


def example_ids(job: Job, split: str, rows: Collection[int]) -> dict[int, str]:
    """The ids ``<dialogue>#<response>`` of rows, for which the corpus is read again as far as the last one."""
    wanted, found = set(rows), dict[int, str]()
    for row, each in enumerate(_ids(job, split)):
        if row in wanted:
            found[row] = each
            if len(found) == len(wanted):
                break
    return found


def _ids(job: Job, split: str) -> Iterator[str]:
    sieves = _sieves(job) if split == "train" else []
    for start, entries in blocks(job.corpus.dialogues(split)):
        for dialogue, pairs in choose(start, entries, job.rules, sieves).chosen:
            yield from (f"{dialogue.id}#{response}" for _, response in pairs)


def _sieves(job: Job) -> list[Sieve]:
    splits = {split: Surveyed(job.corpus.dialogues, job.rules, split) for split in SPLITS}
    return [Sieve("", filter, filter.survey(splits)) for filter in job.build_filters()]
