"""Prepared data of small corpora."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dialog.data.corpora import Corpus
from dialog.data.dialogue import SPLITS, Dialogue, Turn
from dialog.data.examples import ExampleRules
from dialog.data.preparation.job import Job, Limits
from dialog.data.preparation.prepare import prepare

SETTINGS: dict[str, Any] = {
    "component": {"name": "toy"},
    "tokenizer": {"name": "byte_bpe", "vocabulary": 400},
    "max_dropped": 1.0,
    "layout": "roles",
}
RULES: dict[str, Any] = {"context_turns": 2, "first_turns": False, "silence": None}
LIMITS = {"max_source": 24, "max_target": 9}


class Toy:
    """Dialogues in memory, as texts by split; a split that is not given has one."""

    def __init__(self, **splits: list[list[str]]) -> None:
        self.splits = {split: splits.get(split, [["Hi .", "Hello ."]]) for split in SPLITS}

    def dialogues(self, split: str) -> Iterator[Dialogue]:
        for number, texts in enumerate(self.splits[split]):
            yield Dialogue(
                f"{split}-{number}", tuple(Turn("AB"[i % 2], text) for i, text in enumerate(texts))
            )

    def fingerprint(self) -> Mapping[str, str]:
        return {"toy": json.dumps(self.splits)}


@pytest.fixture(scope="module", autouse=True)
def unsynced() -> Iterator[None]:
    """Skip fsync in this process: hundreds of calls take most of the time; test_atomic.py tests
    them.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dialog.atomic.sync", lambda *paths: None)
        yield


@pytest.fixture(scope="session")
def toy() -> type[Toy]:
    return Toy


@pytest.fixture(scope="session")
def built() -> Callable[..., Path]:
    """``built(root, corpus, **changed)``: the folder of a corpus, prepared with small limits."""

    def build(root: Path, corpus: Corpus, **changed: object) -> Path:
        rules, limits, settings = (
            {key: changed.get(key, value) for key, value in defaults.items()}
            for defaults in (RULES, LIMITS, SETTINGS)
        )
        runtime = {key: changed[key] for key in changed.keys() & {"progress", "workers", "engine"}}
        return prepare(
            Job(corpus, rules=ExampleRules(**rules), limits=Limits(**limits), **settings),
            root,
            **runtime,
        )

    return build
