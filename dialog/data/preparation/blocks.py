"""A corpus in blocks of records: the unit that is tokenised at a time, and dealt out to the shards of a preparation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from dialog.data.dialogue import WARNING, Dialogue, Entry, Malformed
from dialog.data.examples import DialogueWindows, ExampleRules, example_windows, usable_dialogue
from dialog.data.filters import Filter

BLOCK = 1024
"""The most records of a block."""
SIZE = 2**24
OVERHEAD = 256
"""A block of so many characters is full too, a turn and a value of its meta counting as so many more each: long
dialogues do not fill the memory."""
SHOWN = 5
"""How many places are kept of each kind of remark."""

Remarks = dict[str, list[str]]
"""Where and what, the first few by kind: "malformed", "empty", "warnings"."""


@dataclass(frozen=True)
class Sieve:
    """A filter, its name in the counts, and what it knows of the whole corpus."""

    name: str
    filter: Filter
    known: NDArray[Any]


@dataclass
class Block:
    """What of a block gives examples, what was kept and dropped, and the first words about it."""

    chosen: list[DialogueWindows] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    remarks: Remarks = field(default_factory=dict)


def blocks(entries: Iterable[Entry]) -> Iterator[tuple[int, list[Entry]]]:
    """Yield (number of its first record, records) of each block, in order."""
    records: list[Entry] = []
    start = size = 0
    for number, entry in enumerate(entries):
        if len(records) == BLOCK or size >= SIZE:
            yield start, records
            records, start, size = [], number, 0
        records.append(entry)
        size += _size(entry)
    if records:
        yield start, records


def _size(entry: Entry) -> int:
    if isinstance(entry, Malformed):
        return len(entry.message)
    size = len(entry.id) + sum(OVERHEAD + len(line.speaker) + len(line.text) for line in (*entry.facts, *entry.turns))
    return size + _held(entry.meta) if entry.meta else size


def _held(meta: object) -> int:
    """What a dialogue's meta counts; it may be nested as deeply as JSON is."""
    size = 0
    rest = [meta]
    while rest:
        value = rest.pop()
        size += OVERHEAD
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, Mapping):
            rest += (*value.keys(), *value.values())
        elif isinstance(value, list | tuple):
            rest += value
    return size


def choose(start: int, records: Sequence[Entry], rules: ExampleRules, sieves: Sequence[Sieve]) -> Block:
    """What of a block is used: by the rules, and by the sieves, which are given for the training split only.

    Of a sieve called n, "dropped dialogues: n" and "dropped turns: n" count what went as a whole, "dropped examples: n"
    the responses of dialogues that stay.

    Raises:
        UserError: a malformed record, unless the rules drop them.
    """
    block = Block()
    for number, entry in enumerate(records, start):
        remark(block.remarks, _remarks(entry, rules.max_turn_characters))
        dialogue = usable_dialogue(entry, rules, block.counts)
        if dialogue is None:
            continue
        pairs = list(example_windows(dialogue, rules))
        dropped: Counter[str] = Counter()
        for sieve in sieves:
            pairs = _sifted(number, dialogue, pairs, sieve, block.counts, dropped)
        if pairs:
            block.counts.update(dropped)
            block.chosen.append(DialogueWindows(dialogue, pairs))
    return block


def remark(kept: Remarks, more: Mapping[str, Sequence[str]]) -> None:
    """Keep of more remarks what there is room for."""
    for kind, said in more.items():
        room = kept.setdefault(kind, [])
        room += said[: SHOWN - len(room)]


def _remarks(entry: Entry, characters: int) -> Remarks:
    if isinstance(entry, Malformed):
        return {"malformed": [entry.message]}
    found: Remarks = {"warnings": [str(entry.meta[WARNING])]} if WARNING in entry.meta else {}
    empty = sum(not turn.text[:characters].strip() for turn in entry.turns)
    if empty or not entry.turns:
        said = f"{empty} of {len(entry.turns)} turns are empty" if empty else "no turns"
        found["empty"] = [f"{entry.place or entry.id}: {said}"]
    return found


def _sifted(
    number: int,
    dialogue: Dialogue,
    pairs: list[tuple[int, int]],
    sieve: Sieve,
    counts: Counter[str],
    examples: Counter[str],
) -> list[tuple[int, int]]:
    """What a sieve leaves; a dialogue that goes is counted in `counts`, examples of one that stays in `examples`."""
    if not pairs:
        return pairs
    dropped = set(sieve.filter.drops(sieve.known, number, dialogue))
    kept = [pair for pair in pairs if pair[1] not in dropped]
    if kept:
        examples[f"dropped examples: {sieve.name}"] += len(pairs) - len(kept)
        return kept
    counts.update({f"dropped dialogues: {sieve.name}": 1, f"dropped turns: {sieve.name}": len(dialogue.turns)})
    counts.subtract({"dialogues": 1, "turns": len(dialogue.turns)})
    return kept


@dataclass(frozen=True)
class Surveyed:
    """The usable dialogues of a split with the numbers of their records, read anew at each iteration."""

    read: Callable[[str], Iterable[Entry]]
    rules: ExampleRules
    split: str

    def __iter__(self) -> Iterator[tuple[int, Dialogue]]:
        for number, entry in enumerate(self.read(self.split)):
            dialogue = usable_dialogue(entry, self.rules, Counter())
            if dialogue is not None:
                yield number, dialogue
