"""Divide records into blocks, and filter a block: the dialogues and responses that become examples,
the counts of the rest, and remarks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from dialog.data.dialogue import SPLITS, WARNING, Dialogue, Entry, Malformed
from dialog.data.examples import DialogueWindows, ExampleRules, example_windows, usable_dialogue
from dialog.data.filters import Filter
from dialog.data.preparation.job import Job

MAX_REMARKS = 5
"""Remarks that are kept of each kind."""

Remarks = dict[str, list[str]]
"""The first remarks by kind ("malformed", "empty", "warnings"), each with its place."""

Names = Callable[[str, Collection[int]], Mapping[int, str]]
"""Maps a split and some of its rows to the examples' ids."""

BLOCK = 1024
"""Maximal records of a block."""
SIZE = 2**24
OVERHEAD = 256
"""Characters after which a block is full, counting each turn and each value of `meta` as 256 more:
this bounds the memory that long dialogues take.
"""


def blocks(entries: Iterable[Entry]) -> Iterator[tuple[int, list[Entry]]]:
    """Yield (index of the first record, records) of each block, in order."""
    records: list[Entry] = []
    start = size = 0
    for index, entry in enumerate(entries):
        if len(records) == BLOCK or size >= SIZE:
            yield start, records
            records = []
            start = index
            size = 0
        records.append(entry)
        size += _size(entry)
    if records:
        yield start, records


def _size(entry: Entry) -> int:
    if isinstance(entry, Malformed):
        return len(entry.message)
    size = len(entry.id) + sum(
        OVERHEAD + len(line.speaker) + len(line.text) for line in (*entry.facts, *entry.turns)
    )
    return size + _meta_size(entry.meta) if entry.meta else size


def _meta_size(meta: object) -> int:
    """Return the size of `meta`, which may be nested as deeply as JSON: without recursion."""
    size = 0
    values = [meta]
    while values:
        value = values.pop()
        size += OVERHEAD
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, Mapping):
            values += (*value.keys(), *value.values())
        elif isinstance(value, list | tuple):
            values += value
    return size


@dataclass(frozen=True)
class SurveyedFilter:
    """A filter, its name in the counts, and the result of its survey of the corpus."""

    name: str
    filter: Filter
    survey: NDArray[Any]


@dataclass
class FilteredBlock:
    """The dialogues of a block that give examples, counts of kept and dropped ones, and the first
    remarks.
    """

    dialogues: list[DialogueWindows] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    remarks: Remarks = field(default_factory=dict)


@dataclass(frozen=True)
class UsableDialogues:
    """The usable dialogues of a split with their record numbers; each iteration reads the corpus
    again.
    """

    read: Callable[[str], Iterable[Entry]]
    rules: ExampleRules
    split: str

    def __iter__(self) -> Iterator[tuple[int, Dialogue]]:
        for number, entry in enumerate(self.read(self.split)):
            dialogue = usable_dialogue(entry, self.rules, Counter())
            if dialogue is not None:
                yield number, dialogue


def survey_filters(
    filters: Sequence[Filter], read: Callable[[str], Iterable[Entry]], rules: ExampleRules
) -> list[SurveyedFilter]:
    """Survey the corpus for each filter, outside of a preparation; the filters have no names."""
    splits = {split: UsableDialogues(read, rules, split) for split in SPLITS}
    return [SurveyedFilter("", filter, filter.survey(splits)) for filter in filters]


def filter_block(
    start: int, records: Sequence[Entry], rules: ExampleRules, filters: Sequence[SurveyedFilter]
) -> FilteredBlock:
    """Apply the rules, then the filters (of the training split only), to records numbered from
    `start`.

    A filter's counts are "dropped dialogues: <name>" and "dropped turns: <name>" for dialogues that
    lose every example, and "dropped examples: <name>" for responses dropped from the other
    dialogues.

    Raises:
        UserError: a malformed record, unless the rules drop them.
    """
    block = FilteredBlock()
    for number, entry in enumerate(records, start):
        add_remarks(
            block.remarks, _remarks(entry, None if rules.normalise else rules.max_turn_characters)
        )
        dialogue = usable_dialogue(entry, rules, block.counts)
        if dialogue is None:
            continue
        pairs = list(example_windows(dialogue, rules))
        dropped: Counter[str] = Counter()
        for filter in filters:
            pairs = _filter_dialogue(number, dialogue, pairs, filter, block.counts, dropped)
        if pairs:
            block.counts.update(dropped)
            block.dialogues.append(DialogueWindows(dialogue, pairs))
    return block


def add_remarks(remarks: Remarks, more: Mapping[str, Sequence[str]]) -> None:
    """Add remarks, up to `MAX_REMARKS` of each kind."""
    for kind, lines in more.items():
        kept = remarks.setdefault(kind, [])
        kept += lines[: MAX_REMARKS - len(kept)]


def _remarks(entry: Entry, characters: int | None) -> Remarks:
    if isinstance(entry, Malformed):
        return {"malformed": [entry.message]}
    remarks: Remarks = {"warnings": [str(entry.meta[WARNING])]} if WARNING in entry.meta else {}
    empty = sum(not turn.text[:characters].strip() for turn in entry.turns)
    if empty or not entry.turns:
        state = f"{empty} of {len(entry.turns)} turns are empty" if empty else "no turns"
        remarks["empty"] = [f"{entry.place or entry.id}: {state}"]
    return remarks


def _filter_dialogue(
    number: int,
    dialogue: Dialogue,
    pairs: list[tuple[int, int]],
    filter: SurveyedFilter,
    counts: Counter[str],
    example_counts: Counter[str],
) -> list[tuple[int, int]]:
    """Return the pairs that a filter keeps; count a dropped dialogue in `counts`, single ones in
    `example_counts`.
    """
    if not pairs:
        return pairs
    dropped = set(filter.filter.drops(filter.survey, number, dialogue))
    kept = [pair for pair in pairs if pair[1] not in dropped]
    if kept:
        example_counts[f"dropped examples: {filter.name}"] += len(pairs) - len(kept)
        return kept
    counts.update(
        {
            f"dropped dialogues: {filter.name}": 1,
            f"dropped turns: {filter.name}": len(dialogue.turns),
        }
    )
    counts.subtract({"dialogues": 1, "turns": len(dialogue.turns)})
    return kept


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
