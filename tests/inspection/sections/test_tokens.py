"""Tokens and truncation, compared with the counts of a prepared store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from dialog.config.components import name_and_arguments
from dialog.data.corpora.builtin.builtin_dialogues import BuiltinDialogues
from dialog.data.dialogue import SPLITS, Entry, Malformed, Turn
from dialog.data.examples import ExampleRules
from dialog.data.preparation.job import Job, Limits
from dialog.data.preparation.prepare import prepare
from dialog.data.store.layout import LAYOUTS
from dialog.data.store.store import Store
from dialog.data.tokenizers import byte_bpe
from dialog.data.tokenizers.trained import word
from dialog.inspection.inspect import inspect
from dialog.inspection.sections.tokens import TokenSection

LIMITS = Limits(12, 8)


class DialoguesWithFacts(BuiltinDialogues):
    """Facts of one speaker or all, consecutive turns of a speaker, empty turns, and dialogues of
    any length.
    """

    def dialogues(self, split: str) -> Iterator[Entry]:
        yield Malformed(f"{split}: malformed")
        for number, dialogue in enumerate(super().dialogues(split)):
            first, second, *rest = (turn.text for turn in dialogue.turns)
            turns = tuple(map(Turn, "ABBBAAB", (first, second, " ", *rest)[: number % 7]))
            facts = tuple(
                Turn(speaker, f"I know {'a lot ' * (number % 4)}.")
                for speaker in ("A", "B", "", "A")
            )
            yield replace(dialogue, turns=turns, facts=facts[: number % 5])


CHANGES: dict[str, list[Any]] = {
    "context_turns": [None, 1],
    "first_turns": [True],
    "responder": ["A"],
    "normalise": [False],
    "merge_turns": [True],
    "reverse": [True],
    "max_turn_characters": [9],
    "malformed": [],
    "silence": ["quiet please"],
}
"""Other values of each rule; all cases drop malformed records."""


@pytest.mark.parametrize(
    "changes",
    [{}, *({rule: value} for rule, values in CHANGES.items() for value in values)],
    ids=str,
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_counts_equal_those_of_the_store(
    tmp_path: Path, changes: dict[str, Any], layout: str
) -> None:
    assert CHANGES.keys() == {field.name for field in fields(ExampleRules)}
    component = {"name": "builtin", "size": 60}
    corpus = DialoguesWithFacts(**name_and_arguments(component)[1])
    rules = replace(ExampleRules(2, first_turns=False, malformed="drop"), **changes)
    tokenizer = {"name": "byte_bpe", "vocabulary": 300}
    folder = prepare(
        Job(corpus, component, tokenizer, rules, LIMITS, max_dropped=1.0, layout=layout), tmp_path
    )
    store = Store(folder, "train")
    section = TokenSection(store.tokenizer, rules, **LIMITS._asdict(), layout=layout)
    inspection = inspect(corpus, section, rules=rules, quiet=True)
    data = inspection.findings["tokens"].data
    for split in SPLITS:
        counts = Store(folder, split).counts
        assert data[split]["examples"] == counts["examples"]
        assert data[split]["tokens"] == counts["tokens"]
        assert data[split]["turns"] == counts["turns"]
        assert data[split]["source_cut"] == counts["truncated: source"]
        assert data[split]["target_cut"] == counts.get("truncated: target", 0)
        assert data[split]["unknown"] == 0
        assert inspection.sizes[split] == {
            "dialogues": counts["dialogues"],
            "turns": counts["turns"],
        }
    assert data["train"]["target_cut"] > 0 == data["test"]["target_cut"]
    assert data["test"]["target_length"]["max"] > LIMITS.max_target
    assert store.counts["facts"] > 0


def test_parts_of_characters_are_counted(make_corpus: Callable[..., Any]) -> None:
    tokenizer = byte_bpe(["aé é é aé"] * 9, vocabulary=300)
    assert len(tokenizer.encode("é")) == 1
    section = TokenSection(tokenizer, ExampleRules(2, first_turns=False), **LIMITS._asdict())
    corpus = make_corpus(train=[["a", "é"]], test=[["a", "🙂 é"], ["你", "b"]])
    data = inspect(corpus, section, quiet=True).findings["tokens"].data
    assert data["train"]["parts"] == 0
    assert data["test"]["parts"] == len("🙂你".encode())


def test_unknown_words_are_counted_and_listed(make_corpus: Callable[..., Any]) -> None:
    section = TokenSection(word(["a b"]), ExampleRules(2, first_turns=True), **LIMITS._asdict())
    corpus = make_corpus(train=[["a", "x"]], validation=[["a b", "b"]], test=[["a x", "y x b"]])
    finding = inspect(corpus, section, quiet=True).findings["tokens"]
    assert (finding.data["test"]["unknown"], finding.data["test"]["tokens"]) == (3, 5)
    assert finding.data["test"]["turns_with_unknown"] == 2
    assert (finding.data["train"]["unknown"], finding.data["validation"]["unknown"]) == (1, 0)
    assert finding.data["most_frequent_unknown"] == {"x": 2, "y": 1}
    assert "60.0 % of test tokens unknown" in finding.headline
    assert "byte_bpe" in finding.advice
    assert finding.severity == "bad"


def test_unknown_words_of_validation_are_in_the_headline(make_corpus: Callable[..., Any]) -> None:
    section = TokenSection(word(["a b"]), ExampleRules(2, first_turns=True), **LIMITS._asdict())
    corpus = make_corpus(train=[["a", "b"]], validation=[["x", "b"]], test=[["a", "b"]])
    assert (
        "50.0 % of validation tokens unknown"
        in inspect(corpus, section, quiet=True).findings["tokens"].headline
    )
