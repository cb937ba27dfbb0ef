"""Division of a corpus into parts, so that a shard parses only its own."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dialog.data.corpora.corpus import Corpus, DivisibleCorpus
from dialog.data.dialogue import SPLITS, Entry
from dialog.data.reading.parts import Part

PARTS = "parts.json"

log = logging.getLogger(__name__)


@dataclass
class Division:
    """The parts of each split; a split with fewer than two is read as a whole by every shard.

    Args:
        parts: Parts by split, in order.
        numbers: Record number of the first record of each training part, for the filters; empty if
            it is not known.
    """

    parts: dict[str, list[Part]]
    numbers: list[int] = field(default_factory=list)

    def is_divided(self, split: str) -> bool:
        """Return whether shards read parts of this split."""
        return len(self.parts[split]) > 1

    def entries(self, corpus: Corpus, split: str, place: int) -> Iterator[Entry]:
        """Yield the records of a part of a divided split."""
        assert isinstance(corpus, DivisibleCorpus)
        return corpus.part(split, self.parts[split][place])

    def training_entries(self, corpus: Corpus) -> Iterator[Entry]:
        """Yield the records of the training split, and set `numbers`."""
        if not self.is_divided("train"):
            yield from corpus.dialogues("train")
            return
        read = 0
        numbers = []
        for place in range(len(self.parts["train"])):
            numbers.append(read)
            for entry in self.entries(corpus, "train", place):
                read += 1
                yield entry
        self.numbers = numbers


def divide(corpus: Corpus, count: int) -> Division:
    """Return the parts of a corpus; with several shards, warn of splits that cannot be divided."""
    parts = {
        split: list(corpus.parts(split)) if isinstance(corpus, DivisibleCorpus) else []
        for split in SPLITS
    }
    if count > 1 and not parts["train"]:
        log.warning(
            "the training split cannot be divided into parts, so each of %d shards parses all of"
            " it; JSON lines, plain text and Parquet files can be divided, unless compressed",
            count,
        )
    return Division(parts)


def write_division(folder: Path, division: Division) -> None:
    """Write the parts to a draft."""
    (folder / PARTS).write_text(json.dumps([division.parts, division.numbers]))


def read_division(folder: Path) -> Division:
    """Return the parts that a draft holds."""
    parts, numbers = json.loads((folder / PARTS).read_text())
    return Division(
        {split: [Part(*part) for part in listed] for split, listed in parts.items()}, numbers
    )
