"""Topical-Chat: objects of conversations, and the frequent and rare parts of validation and
test.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dialog.data.corpora.knowledge_grounded import TopicalChat
from dialog.data.dialogue import Dialogue, Malformed, Turn
from dialog.errors import UserError


def talk(word: str) -> dict[str, object]:
    content = [
        {
            "message": f"{word}?\nYes, {word}.",
            "agent": agent,
            "sentiment": "Happy",
            "knowledge_source": ["FS1"],
            "turn_rating": "Good",
        }
        for agent in ("agent_2", "agent_1")
    ]
    return {"article_url": "", "config": "A", "content": content, "conversation_rating": {}}


FILES = {
    f"conversations/{name}.json": json.dumps(
        {f"t_{name}_{n}": talk(f"tea {n}") for n in (1, 0)}, indent=2
    )
    for name in ("train", "valid_freq", "valid_rare", "test_freq", "test_rare")
}


def test_reads_the_format(check_laws: Callable[..., dict[str, list[Dialogue]]]) -> None:
    splits = check_laws(TopicalChat, FILES)
    assert {
        split: [dialogue.id for dialogue in dialogues] for split, dialogues in splits.items()
    } == {
        "train": ["t_train_1", "t_train_0"],
        "validation": ["t_valid_freq_1", "t_valid_freq_0", "t_valid_rare_1", "t_valid_rare_0"],
        "test": ["t_test_freq_1", "t_test_freq_0", "t_test_rare_1", "t_test_rare_0"],
    }
    first = splits["train"][0]
    assert first.turns == (
        Turn("agent_2", "tea 1?\nYes, tea 1."),
        Turn("agent_1", "tea 1?\nYes, tea 1."),
    )
    assert first.meta == {
        "config": "A",
        "sentiment": ["Happy"] * 2,
        "knowledge_source": [["FS1"]] * 2,
        "turn_rating": ["Good"] * 2,
    }


def test_parts_can_be_chosen(write_files: Callable[..., Path]) -> None:
    folder = write_files(FILES)
    corpus = TopicalChat(folder / "conversations", parts=["rare"])
    assert [d.id for d in corpus.dialogues("test") if isinstance(d, Dialogue)] == [
        "t_test_rare_1",
        "t_test_rare_0",
    ]
    assert list(corpus.fingerprint()) == [
        "parts",
        "test_rare.json",
        "train.json",
        "valid_rare.json",
    ]
    with pytest.raises(UserError, match=r"valid_often\.json does not exist; .* freq and rare"):
        TopicalChat(folder, parts=["often"]).fingerprint()


def test_malformed_records_are_reported_and_the_rest_read(write_files: Callable[..., Path]) -> None:
    broken = json.dumps({"a": talk("x"), "b": {"content": [{"message": "no one"}]}, "c": talk("y")})
    entries = [
        *TopicalChat(write_files({**FILES, "conversations/train.json": broken})).dialogues("train")
    ]
    assert [type(entry) for entry in entries] == [Dialogue, Malformed, Dialogue]
    assert "train.json: record b: not in this corpus's format (KeyError: 'agent')" in str(
        entries[1]
    )
