"""What the tokenizer makes of a corpus, held against what the prepared store counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dialog.components import named
from dialog.data.corpora import Builtin
from dialog.data.prepare import prepare
from dialog.data.store import Store
from dialog.data.tokenizer import UNK, Tokenizer
from dialog.inspection.inspect import inspect
from dialog.inspection.tokens import Tokens

LIMITS = {"context_turns": 2, "max_source": 12, "max_target": 8}


@pytest.mark.parametrize("first_turns", [False, True])
def test_counts_what_the_store_counts(tmp_path: Path, first_turns: bool) -> None:
    component = {"name": "builtin", "size": 60}
    corpus = Builtin(**named(component)[1])
    settings: dict[str, Any] = {**LIMITS, "first_turns": first_turns}
    folder = prepare(
        corpus, corpus_component=component, tokenizer={"name": "byte_bpe", "vocabulary": 300}, root=tmp_path, **settings
    )
    store = Store(folder, "train")
    section = Tokens(store.tokenizer, **settings)
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
    tokenizer = Tokenizer.train(["aé é é aé"] * 9, vocabulary=300)
    assert len(tokenizer.encode("é")) == 1
    section = Tokens(tokenizer, first_turns=False, **LIMITS)
    found = inspect(told(train=[["a", "é"]], test=[["a", "🙂 é"], ["你", "b"]]), section, quiet=True).findings["tokens"]
    assert found.data["train"]["parts"] == 0
    assert found.data["test"]["parts"] == len("🙂你".encode())


class Words:
    """A tokenizer of few words, as far as the section needs one."""

    known = ("a", "b")

    def __len__(self) -> int:
        return 8

    def encode(self, text: str) -> list[int]:
        return [6 + self.known.index(word) if word in self.known else UNK for word in text.split()]

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        return list(map(self.encode, texts))

    def decode(self, ids: list[int]) -> str:
        return " ".join(self.known[id - 6] for id in ids if id > UNK + 2)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        ends = [0]
        for word in text.split():
            ends.append(text.index(word, ends[-1]) + len(word))
        return [(end - len(word), end) for word, end in zip(text.split(), ends[1:], strict=True)]


def test_unknown_words_are_counted_and_named(told: Callable[..., Any]) -> None:
    section = Tokens(Words(), first_turns=True, **LIMITS)  # type: ignore[arg-type]  # as much of one as is used
    corpus = told(train=[["a", "x"]], validation=[["a b", "b"]], test=[["a x", "y x b"]])
    found = inspect(corpus, section, quiet=True).findings["tokens"]
    assert (found.data["test"]["unknown"], found.data["test"]["tokens"]) == (3, 5)
    assert found.data["test"]["turns_with_unknown"] == 2
    assert (found.data["train"]["unknown"], found.data["validation"]["unknown"]) == (1, 0)
    assert found.data["most_frequent_unknown"] == {"x": 2, "y": 1}
    assert found.state == "bad"
