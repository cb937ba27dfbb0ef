"""What the tokenizer makes of a corpus, held against what the prepared store counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from dialog.config.components import name_and_arguments
from dialog.data.corpora.builtin.builtin_dialogues import BuiltinDialogues
from dialog.data.dialogue import Entry, Malformed, Turn
from dialog.data.examples import ExampleRules
from dialog.data.preparation.job import Job, Limits
from dialog.data.preparation.prepare import prepare
from dialog.data.store.store import Store
from dialog.data.tokenizers import byte_bpe
from dialog.data.tokenizers.word_level import word
from dialog.inspection.inspect import inspect
from dialog.inspection.sections.tokens import Tokens

LIMITS = Limits(12, 8)


class Knowing(BuiltinDialogues):
    """Its speakers know something, each or all; some say two turns in a row, or nothing, or it ends early."""

    def dialogues(self, split: str) -> Iterator[Entry]:
        yield Malformed(f"{split}: no dialogue")
        for number, each in enumerate(super().dialogues(split)):
            texts = (each.turns[0].text, each.turns[1].text, " ", *(turn.text for turn in each.turns[2:]))
            turns = tuple(map(Turn, "ABBBAAB", texts[: number % 7]))
            facts = tuple(Turn(speaker, f"I know {'a lot ' * (number % 4)}.") for speaker in ("A", "B", "", "A"))
            yield replace(each, turns=turns, facts=facts[: number % 5])


CHANGES: dict[str, list[Any]] = {
    "context_turns": [None, 1],
    "first_turns": [True],
    "responder": ["A"],
    "merge_turns": [True],
    "reverse": [True],
    "max_turn_characters": [9],
    "malformed": [],
}
"""Values of each field beside its own in the test; what is malformed is dropped in all."""


@pytest.mark.parametrize("changes", [{}, *({key: each} for key, values in CHANGES.items() for each in values)], ids=str)
def test_counts_what_the_store_counts(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert CHANGES.keys() == {each.name for each in fields(ExampleRules)}
    component = {"name": "builtin", "size": 60}
    corpus = Knowing(**name_and_arguments(component)[1])
    rules = replace(ExampleRules(2, first_turns=False, malformed="drop"), **changes)
    tokenizer = {"name": "byte_bpe", "vocabulary": 300}
    folder = prepare(Job(corpus, component, tokenizer, rules, LIMITS, max_dropped=1.0), tmp_path)
    store = Store(folder, "train")
    section = Tokens(store.tokenizer, rules, **LIMITS._asdict())
    found = inspect(corpus, section, rules=rules, quiet=True)
    data = found.findings["tokens"].data
    for split in ("train", "validation", "test"):
        counts = Store(folder, split).counts
        assert data[split]["examples"] == counts["examples"]
        assert data[split]["tokens"] == counts["tokens"]
        assert data[split]["turns"] == counts["turns"]
        assert data[split]["source_cut"] == counts["truncated: source"]
        assert data[split]["target_cut"] == counts.get("truncated: target", 0)
        assert data[split]["unknown"] == 0
        assert found.sizes[split] == {"dialogues": counts["dialogues"], "turns": counts["turns"]}
    assert data["train"]["target_cut"] > 0 == data["test"]["target_cut"]
    assert data["test"]["target_length"]["max"] > LIMITS.max_target
    assert store.counts["facts"] > 0


def test_a_character_in_pieces_is_counted_by_its_pieces(told: Callable[..., Any]) -> None:
    tokenizer = byte_bpe(["aé é é aé"] * 9, vocabulary=300)
    assert len(tokenizer.encode("é")) == 1
    section = Tokens(tokenizer, ExampleRules(2, first_turns=False), **LIMITS._asdict())
    found = inspect(told(train=[["a", "é"]], test=[["a", "🙂 é"], ["你", "b"]]), section, quiet=True).findings["tokens"]
    assert found.data["train"]["parts"] == 0
    assert found.data["test"]["parts"] == len("🙂你".encode())


def test_unknown_words_are_counted_and_name_and_arguments(told: Callable[..., Any]) -> None:
    section = Tokens(word(["a b"]), ExampleRules(2, first_turns=True), **LIMITS._asdict())
    corpus = told(train=[["a", "x"]], validation=[["a b", "b"]], test=[["a x", "y x b"]])
    found = inspect(corpus, section, quiet=True).findings["tokens"]
    assert (found.data["test"]["unknown"], found.data["test"]["tokens"]) == (3, 5)
    assert found.data["test"]["turns_with_unknown"] == 2
    assert (found.data["train"]["unknown"], found.data["validation"]["unknown"]) == (1, 0)
    assert found.data["most_frequent_unknown"] == {"x": 2, "y": 1}
    assert found.state == "bad"
