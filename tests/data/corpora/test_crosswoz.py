"""CrossWOZ: the published objects, and a file that several splits share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dialog.data.corpora.crosswoz import CrossWOZ
from dialog.data.dialogue import SPLITS, Dialogue, Malformed, Turn
from dialog.errors import UserError


def said(*texts: str) -> dict[str, object]:
    messages = [
        {"content": text, "role": ("usr", "sys")[index % 2], "dialog_act": [["General", "greet", "none", "none"]]}
        for index, text in enumerate(texts)
    ]
    return {"sys-usr": [1, 2], "goal": [], "messages": messages, "final_goal": [], "type": "单领域"}


def file(first: int, count: int) -> str:
    return json.dumps({str(n): said(f"你好\n第{n}家？", f"好的{n}。") for n in range(first, first + count)})


FILES = {"train.json": file(0, 4), "val.json": file(100, 200), "test.json": file(500, 3)}


def test_reads_the_format(laws: Callable[..., dict[str, list[Dialogue]]]) -> None:
    found = laws(CrossWOZ, FILES)
    assert {split: len(dialogues) for split, dialogues in found.items()} == {"train": 4, "validation": 200, "test": 3}
    assert [dialogue.id for dialogue in found["train"]] == ["0", "1", "2", "3"]
    first = found["train"][0]
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
def test_a_file_that_splits_share_is_divided_among_them(lay: Callable[..., Path], names: dict[str, str]) -> None:
    corpus = CrossWOZ(lay(FILES), **names)
    found = {split: [dialogue.id for dialogue in corpus.dialogues(split)] for split in SPLITS}
    read = {"train": "train", "validation": "val", "test": "test"} | names
    for name in set(read.values()):
        sharers = [split for split in SPLITS if read[split] == name]
        ids = [each for split in sharers for each in found[split]]
        assert sorted(ids) == sorted(json.loads(FILES[f"{name}.json"])), "not each dialogue in exactly one split"
        if name == "val" and len(sharers) > 1:
            assert all(0 < len(found[split]) < 50 for split in sharers[1:])
    assert corpus.fingerprint() != CrossWOZ(lay(FILES)).fingerprint()


def test_a_record_that_is_none_is_named_and_the_rest_read(lay: Callable[..., Path]) -> None:
    broken = {
        "a": said("一", "二"),
        "b": {"type": "x"},
        "c": {"messages": [{"role": "usr", "content": None}]},
        "d": said("三"),
    }
    found = [*CrossWOZ(lay({**FILES, "train.json": json.dumps(broken)})).dialogues("train")]
    assert [type(entry) for entry in found] == [Dialogue, Malformed, Malformed, Dialogue]
    assert "train.json: record b: not in this corpus's format (KeyError: 'messages')" in str(found[1])
    assert "train.json: record c: None is not text" in str(found[2])


@pytest.mark.parametrize("content", ["[]", "{}", "3", "{"])
def test_a_file_that_is_no_object_of_dialogues_is_refused(lay: Callable[..., Path], content: str) -> None:
    with pytest.raises(UserError, match=r"test\.json.*(holds no dialogues|not JSON)"):
        list(CrossWOZ(lay({**FILES, "test.json": content})).dialogues("test"))


def test_a_missing_file_is_named_with_the_way_round(lay: Callable[..., Path]) -> None:
    folder = lay({name: content for name, content in FILES.items() if name != "train.json"})
    with pytest.raises(UserError, match=r"train\.json does not exist; unpack .*zip, or set data\.corpus\.train"):
        CrossWOZ(folder).fingerprint()
    assert list(CrossWOZ(folder, train="val").dialogues("train"))
