"""Corpora in memory, and their findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from dialog.data.dialogue import SPLITS, Dialogue, Entry, Turn
from dialog.inspection.findings import Finding
from dialog.inspection.inspect import inspect


class MemoryCorpus:
    """Entries by split; a list of texts becomes a dialogue of the speakers A and B."""

    def __init__(self, splits: Mapping[str, Sequence[Entry | list[str]]]) -> None:
        self.splits = {
            split: [
                dialogue(f"{split}-{number}", *entry) if isinstance(entry, list) else entry
                for number, entry in enumerate(entries)
            ]
            for split, entries in splits.items()
        }

    def dialogues(self, split: str) -> Iterator[Entry]:
        yield from self.splits.get(split, [])

    def fingerprint(self) -> dict[str, str]:
        return dict.fromkeys(SPLITS, "memory")


def dialogue(id: str, *texts: str) -> Dialogue:
    turns = tuple(Turn("AB"[index % 2], text) for index, text in enumerate(texts))
    return Dialogue(
        id, turns, place=f"/somewhere/{id.partition('-')[0]}.txt:{id.rpartition('-')[2]}"
    )


@pytest.fixture(scope="session")
def make_corpus() -> Callable[..., MemoryCorpus]:
    """``make_corpus(train=[[text, ...], ...], test=[...])`` returns a corpus."""
    return lambda **splits: MemoryCorpus(splits)


@pytest.fixture(scope="session")
def find() -> Callable[..., dict[str, Finding]]:
    """``find(train=[[text, ...], ...], test=[...])`` returns the findings of a corpus."""

    def findings(**splits: Sequence[Entry | list[str]]) -> dict[str, Finding]:
        return inspect(MemoryCorpus(splits), quiet=True).findings

    return findings
