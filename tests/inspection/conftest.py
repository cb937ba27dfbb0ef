"""A corpus that is told in a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from dialog.data.dialogue import SPLITS, Dialogue, Entry, Turn


class Told:
    """Entries by split; a list of texts is a dialogue of two speakers."""

    def __init__(self, splits: Mapping[str, Sequence[Entry | Sequence[str]]]) -> None:
        self.splits = {
            split: [
                each if not isinstance(each, list) else dialogue(f"{split}-{n}", *each) for n, each in enumerate(told)
            ]
            for split, told in splits.items()
        }

    def dialogues(self, split: str) -> Iterator[Entry]:
        yield from self.splits.get(split, [])

    def fingerprint(self) -> dict[str, str]:
        return dict.fromkeys(SPLITS, "told")


def dialogue(id: str, *texts: str) -> Dialogue:
    turns = tuple(Turn("AB"[index % 2], text) for index, text in enumerate(texts))
    return Dialogue(id, turns, place=f"/somewhere/{id.partition('-')[0]}.txt:{id.rpartition('-')[2]}")


@pytest.fixture(scope="session")
def told() -> Callable[..., Told]:
    """``told(train=[[text, ...], ...], test=[...])``: a corpus."""
    return lambda **splits: Told(splits)
