"""OpenAI's chat format: roles, content parts and malformed messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dialog.data.corpora.jsonl import Messages
from dialog.data.dialogue import SPLITS, Malformed, Turn

USER = {"role": "user", "content": "Hi !"}
ASSISTANT = {"role": "assistant", "content": "Hello ."}


def write(folder: Path, *lines: object) -> Messages:
    good = json.dumps({"messages": [USER, ASSISTANT]})
    for split in SPLITS:
        texts = (
            [line if isinstance(line, str) else json.dumps(line) for line in lines]
            if split == "train"
            else [good]
        )
        (folder / f"{split}.jsonl").write_text("".join(f"{text}\n" for text in texts))
    return Messages(folder)


def test_reads_roles_content_parts_and_facts(tmp_path: Path) -> None:
    system = [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [{"type": "text", "text": "!"}]},
    ]
    parts = {
        "role": "user",
        "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
        "name": "x",
    }
    corpus = write(
        tmp_path,
        {"messages": [*system, USER, ASSISTANT, parts]},
        "",
        {"id": 7, "messages": [ASSISTANT, USER]},
        " ",
    )
    first, second = corpus.dialogues("train")
    assert first.id == "train-1"
    assert first.facts == (Turn("", "Be brief."), Turn("", "!"))
    assert first.turns == (
        Turn("user", "Hi !"),
        Turn("assistant", "Hello ."),
        Turn("user", "one\ntwo"),
    )
    assert (second.id, [turn.speaker for turn in second.turns]) == ("7", ["assistant", "user"])


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        (
            [USER, {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}],
            'message 2 has "tool_calls"',
        ),
        (
            [USER, {"role": "assistant", "content": "x", "function_call": {"name": "f"}}],
            '"function_call"',
        ),
        (
            [USER, {"role": "tool", "content": "7", "tool_call_id": "1"}],
            "message 2 is of role 'tool'",
        ),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
            "part of type 'image_url'",
        ),
        ([USER, {"role": "system", "content": "x"}], "'system', after the first turn"),
        ([{"role": "narrator", "content": "x"}], "'narrator'"),
        ([{"role": "user", "content": None}], "message 1: its content is NoneType"),
        ([{"role": "user"}], "KeyError: 'content'"),
        ([{"content": "x"}], "KeyError: 'role'"),
        ([{"role": "user", "content": [{"type": "text"}]}], "KeyError: 'text'"),
        ([{"role": "user", "content": [{"type": "text", "text": 7}]}], "TypeError"),
        (["Hi !"], "not in this corpus's format"),
        ("Hi !", 'no "messages"'),
        (None, 'no "messages"'),
    ],
)
def test_malformed_records_are_reported_and_the_rest_read(
    tmp_path: Path, messages: object, message: str
) -> None:
    bad, good = write(tmp_path, {"messages": messages}, {"messages": [USER, ASSISTANT]}).dialogues(
        "train"
    )
    assert isinstance(bad, Malformed)
    assert "train.jsonl:1: " in bad.message
    assert message in bad.message
    assert "\n" not in bad.message
    assert good.id == "train-2"


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"messages": [], "messages": []}', '{"id": 7.5, "messages": []}']
)
def test_a_line_without_a_chat_is_malformed(tmp_path: Path, line: str) -> None:
    (bad,) = write(tmp_path, line).dialogues("train")
    assert isinstance(bad, Malformed)
