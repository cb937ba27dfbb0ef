"""What the tokenizer makes of a corpus, held against what the prepared store counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dialog.components import named
from dialog.data.corpora.builtin import Builtin
from dialog.data.examples import Rules
from dialog.data.prepare import prepare
from dialog.data.shards import Job
from dialog.data.store import Store
from dialog.data.tokenizers import byte_bpe
from dialog.data.tokenizers.symbols import word
from dialog.data.writer import Limits
from dialog.inspection.inspect import inspect
from dialog.inspection.tokens import Tokens

LIMITS = Limits(12, 8)


@pytest.mark.parametrize("first_turns", [False, True])
def test_counts_what_the_store_counts(tmp_path: Path, first_turns: bool) -> None:
    component = {"name": "builtin", "size": 60}
    corpus = Builtin(**named(component)[1])
    rules = Rules(2, first_turns=first_turns)
    folder = prepare(Job(corpus, component, {"name": "byte_bpe", "vocabulary": 300}, rules, LIMITS), tmp_path)
    store = Store(folder, "train")
    section = Tokens(store.tokenizer, rules, **LIMITS._asdict())
    data = inspect(corpus, section, quiet=True).findings["tokens"].data
    for split in ("train", "validation", "test"):
        counts = Store(folder, split).counts
        assert data[split]["examples"] == counts["examples"]
        assert data[split]["tokens"] == counts["tokens"]
        assert data[split]["turns"] == counts["turns"]
        assert data[split]["source_cut"] == counts["truncated: source"]
        assert data[split]["unknown"] == 0
    assert data["train"]["target_cut"] == store.counts["truncated: target"] > 0


def test_a_character_in_pieces_is_counted_by_its_pieces(told: Callable[..., Any]) -> None:
    tokenizer = byte_bpe(["aé é é aé"] * 9, vocabulary=300)
    assert len(tokenizer.encode("é")) == 1
    section = Tokens(tokenizer, Rules(2, first_turns=False), **LIMITS._asdict())
    found = inspect(told(train=[["a", "é"]], test=[["a", "🙂 é"], ["你", "b"]]), section, quiet=True).findings["tokens"]
    assert found.data["train"]["parts"] == 0
    assert found.data["test"]["parts"] == len("🙂你".encode())


def test_unknown_words_are_counted_and_named(told: Callable[..., Any]) -> None:
    section = Tokens(word(["a b"]), Rules(2, first_turns=True), **LIMITS._asdict())
    corpus = told(train=[["a", "x"]], validation=[["a b", "b"]], test=[["a x", "y x b"]])
    found = inspect(corpus, section, quiet=True).findings["tokens"]
    assert (found.data["test"]["unknown"], found.data["test"]["tokens"]) == (3, 5)
    assert found.data["test"]["turns_with_unknown"] == 2
    assert (found.data["train"]["unknown"], found.data["validation"]["unknown"]) == (1, 0)
    assert found.data["most_frequent_unknown"] == {"x": 2, "y": 1}
    assert found.state == "bad"
