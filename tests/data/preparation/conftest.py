"""Jobs and corpora of the tests of preparation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from dialog.data.corpora.builtin.builtin_dialogues import BuiltinDialogues
from dialog.data.dialogue import Dialogue, Entry, Turn
from dialog.data.examples import ExampleRules
from dialog.data.preparation.job import Job, Limits

BLOCK = 64
SIZE = 3 * BLOCK + 7


class InMemory:
    """A corpus with the given training records, and one dialogue in each other split."""

    def __init__(self, *entries: Entry) -> None:
        self.entries = entries

    def dialogues(self, split: str) -> Iterator[Entry]:
        other = Dialogue(f"{split}-0", (Turn("A", "Hi"), Turn("B", "Hello")))
        yield from self.entries if split == "train" else (other,)

    def fingerprint(self) -> dict[str, str]:
        return {"entries": repr(self.entries)}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 64 records, in this process only."""
    for module in ("filtering", "draft"):
        monkeypatch.setattr(f"dialog.data.preparation.{module}.BLOCK", BLOCK)


@pytest.fixture(scope="session")
def job() -> Callable[..., Job]:
    """``job(corpus, **settings)``; the default corpus fills four small blocks."""

    def make(corpus: object = None, **settings: object) -> Job:
        settings = {"max_dropped": 1.0} | settings
        return Job(
            corpus or BuiltinDialogues(size=SIZE),
            {"name": "builtin", "size": SIZE},
            {"name": "byte_bpe", "vocabulary": 400},
            ExampleRules(3, first_turns=False, malformed="drop"),
            Limits(60, 20),
            **settings,
        )

    return make


@pytest.fixture(scope="session")
def contents() -> Callable[[Path], dict[str, str]]:
    """``contents(folder)``: the hash of each file."""
    return lambda folder: {
        path.name: sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()
    }


@pytest.fixture(scope="session")
def in_memory() -> type[InMemory]:
    return InMemory


@pytest.fixture(scope="session")
def dialogue() -> Callable[..., Dialogue]:
    """``dialogue(id, *texts)`` of two speakers."""

    def make(
        id: str, *texts: str, place: str = "", meta: dict[str, object] | None = None
    ) -> Dialogue:
        return Dialogue(
            id,
            tuple(Turn("AB"[n % 2], text) for n, text in enumerate(texts)),
            meta or {},
            place=place,
        )

    return make
