"""CrossWOZ: the published objects, and one file for several splits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dialog.data.corpora.task_oriented import CrossWOZ
from dialog.data.dialogue import SPLITS, Dialogue, Malformed, Turn
from dialog.errors import UserError


def dialogue_record(*texts: str) -> dict[str, object]:
    messages = [
        {
            "content": text,
            "role": ("usr", "sys")[index % 2],
            "dialog_act": [["General", "greet", "none", "none"]],
        }
        for index, text in enumerate(texts)
    ]
    return {"sys-usr": [1, 2], "goal": [], "messages": messages, "final_goal": [], "type": "单领域"}


def file(first: int, count: int) -> str:
    return json.dumps(
        {
            str(n): dialogue_record(f"你好\n第{n}家？", f"好的{n}。")
            for n in range(first, first + count)
        }
    )


FILES = {"train.json": file(0, 4), "val.json": file(100, 200), "test.json": file(500, 3)}


def test_reads_the_format(check_laws: Callable[..., dict[str, list[Dialogue]]]) -> None:
    splits = check_laws(CrossWOZ, FILES)
    assert {split: len(dialogues) for split, dialogues in splits.items()} == {
        "train": 4,
        "validation": 200,
        "test": 3,
    }
    assert [dialogue.id for dialogue in splits["train"]] == ["0", "1", "2", "3"]
    first = splits["train"][0]
    assert first.turns == (Turn("usr", "你好\n第0家？"), Turn("sys", "好的0。"))
    assert first.meta == {"type": "单领域", "acts": [[["General", "greet", "none", "none"]]] * 2}


@pytest.mark.parametrize(
    "names",
    [
        {"train": "val"},
        {"train": "val", "test": "val"},
        {"validation": "val", "test": "val"},
        {"train": "val", "validation": "test", "test": "val"},
    ],
)
def test_a_file_for_several_splits_is_divided(
    write_files: Callable[..., Path], names: dict[str, str]
) -> None:
    corpus = CrossWOZ(write_files(FILES), **names)
    entries = {split: [dialogue.id for dialogue in corpus.dialogues(split)] for split in SPLITS}
    read = {"train": "train", "validation": "val", "test": "test"} | names
    for name in set(read.values()):
        sharers = [split for split in SPLITS if read[split] == name]
        ids = [id for split in sharers for id in entries[split]]
        assert sorted(ids) == sorted(json.loads(FILES[f"{name}.json"])), (
            "not each dialogue in exactly one split"
        )
        if name == "val" and len(sharers) > 1:
            assert all(0 < len(entries[split]) < 50 for split in sharers[1:])
    assert corpus.fingerprint() != CrossWOZ(write_files(FILES)).fingerprint()


def test_malformed_records_are_reported_and_the_rest_read(write_files: Callable[..., Path]) -> None:
    broken = {
        "a": dialogue_record("一", "二"),
        "b": {"type": "x"},
        "c": {"messages": [{"role": "usr", "content": None}]},
        "d": dialogue_record("三"),
    }
    entries = [
        *CrossWOZ(write_files({**FILES, "train.json": json.dumps(broken)})).dialogues("train")
    ]
    assert [type(entry) for entry in entries] == [Dialogue, Malformed, Malformed, Dialogue]
    assert "train.json: record b: not in this corpus's format (KeyError: 'messages')" in str(
        entries[1]
    )
    assert "train.json: record c: None is not text" in str(entries[2])


@pytest.mark.parametrize("content", ["[]", "{}", "3", "{"])
def test_a_file_without_dialogues_is_rejected(
    write_files: Callable[..., Path], content: str
) -> None:
    with pytest.raises(UserError, match=r"test\.json.*(holds no dialogues|not JSON)"):
        list(CrossWOZ(write_files({**FILES, "test.json": content})).dialogues("test"))


def test_a_missing_file_is_reported_with_a_fix(write_files: Callable[..., Path]) -> None:
    folder = write_files({name: content for name, content in FILES.items() if name != "train.json"})
    with pytest.raises(
        UserError, match=r"train\.json does not exist; unpack .*zip, or set data\.corpus\.train"
    ):
        CrossWOZ(folder).fingerprint()
    assert list(CrossWOZ(folder, train="val").dialogues("train"))
