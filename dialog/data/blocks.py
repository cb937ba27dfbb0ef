"""A corpus in blocks of records: the unit that is tokenised at a time, and dealt out to the shards of a preparation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from numpy.typing import NDArray

from dialog.data.corpora import Corpus
from dialog.data.dialogue import WARNING, Dialogue, Entry, Malformed
from dialog.data.examples import Chosen, Rules, usable, windows
from dialog.data.filters import Filter

BLOCK = 1024
"""Records of a block."""
SHOWN = 5
"""Malformed records, and warnings, that a block keeps the words of."""


@dataclass(frozen=True)
class Sieve:
    """A filter, its name in the counts, and what it knows of the whole corpus."""

    name: str
    filter: Filter
    known: NDArray[Any]


@dataclass
class Block:
    """What of a block gives examples, what was kept and dropped, and the first words about it."""

    chosen: list[Chosen] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)


def blocks(entries: Iterable[Entry]) -> Iterator[tuple[int, list[Entry]]]:
    """Yield (number of its first record, records) of each block, in order."""
    rest = iter(entries)
    start = 0
    while records := list(islice(rest, BLOCK)):
        yield start, records
        start += len(records)


def choose(start: int, records: Sequence[Entry], rules: Rules, sieves: Sequence[Sieve]) -> Block:
    """What of a block is used: by the rules, and by the sieves, which are given for the training split only.

    Of a sieve called n, "dropped dialogues: n" and "dropped turns: n" count what went as a whole, "dropped examples: n"
    the responses of dialogues that stay.

    Raises:
        UserError: a malformed record, unless the rules drop them.
    """
    block = Block()
    for number, entry in enumerate(records, start):
        if isinstance(entry, Malformed):
            block.remarks.append(entry.message)
        elif WARNING in entry.meta:
            block.remarks.append(str(entry.meta[WARNING]))
        dialogue = usable(entry, rules, block.counts)
        if dialogue is None:
            continue
        pairs = list(windows(dialogue, rules))
        for sieve in sieves:
            pairs = _sifted(number, dialogue, pairs, sieve, block.counts)
        if pairs:
            block.chosen.append(Chosen(dialogue, pairs))
    del block.remarks[SHOWN:]
    return block


def _sifted(
    number: int, dialogue: Dialogue, pairs: list[tuple[int, int]], sieve: Sieve, counts: Counter[str]
) -> list[tuple[int, int]]:
    if not pairs:
        return pairs
    dropped = set(sieve.filter.drops(sieve.known, number, dialogue))
    kept = [pair for pair in pairs if pair[1] not in dropped]
    if kept:
        counts[f"dropped examples: {sieve.name}"] += len(pairs) - len(kept)
        return kept
    counts.update({f"dropped dialogues: {sieve.name}": 1, f"dropped turns: {sieve.name}": len(dialogue.turns)})
    counts.subtract({"dialogues": 1, "turns": len(dialogue.turns)})
    return kept


@dataclass(frozen=True)
class Surveyed:
    """The usable dialogues of a split with the numbers of their records, read anew at each iteration."""

    corpus: Corpus
    rules: Rules
    split: str

    def __iter__(self) -> Iterator[tuple[int, Dialogue]]:
        for number, entry in enumerate(self.corpus.dialogues(self.split)):
            dialogue = usable(entry, self.rules, Counter())
            if dialogue is not None:
                yield number, dialogue
