"""JSON lines: the format, the split of one file, and malformed lines."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

import pytest

from dialog.data.corpora.jsonl import JsonLines
from dialog.data.dialogue import SPLITS, WARNING, Dialogue, Malformed, Turn
from dialog.errors import UserError

SAMPLE = Path(__file__).with_name("samples") / "jsonl"
GOOD = b'{"id": "good", "turns": ["Hi", "Hello"]}\n'


def folder_with(path: Path, train: bytes) -> JsonLines:
    for split in SPLITS:
        (path / f"{split}.jsonl").write_bytes(train if split == "train" else GOOD)
    return JsonLines(path)


def test_reads_the_format() -> None:
    a, b, c, d = JsonLines(SAMPLE).dialogues("train")
    assert a.turns == (Turn("guest", "A table for two, please."), Turn("host", "This way, please."))
    assert a.meta == {"topic": "dinner"}
    assert [turn.speaker for turn in b.turns] == ["A", "B", "A"]
    assert b.turns[1].text == "Guten Tag. 你好 👋"
    assert c.id == "train-3"
    assert [turn.speaker for turn in c.turns] == ["A", "B", "A"]
    assert len(d.turns) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"turns": ["a", "b"]\n', "not JSON at character"),
        (b'{"turns": ["a", "b"]} {}\n', "not JSON at character"),
        (b'{"turns": ["a\x01", "b"]}\n', "not JSON at character"),
        (b'{"turns": ["a", NaN]}\n', "NaN"),
        (b'{"turns": ["a", "b"], "turns": []}\n', "'turns' is repeated"),
        (b'{"turns": ["a"], "meta": {"n": ' + b"9" * 5000 + b"}}\n", "not JSON that can be read"),
        (b"[" * 200_000 + b"\n", "not JSON"),
        (b'"a"\n', 'no "turns"'),
        (b"[]\n", 'no "turns"'),
        (b"3\n", 'no "turns"'),
        (b'{"id": "x"}\n', 'no "turns"'),
        (b'{"turns": "a"}\n', 'no "turns"'),
        (b'{"turns": null}\n', 'no "turns"'),
        (b'{"turns": ["a", 3]}\n', 'turn 2 has no "text"'),
        (b'{"turns": [{"speaker": "A"}]}\n', 'turn 1 has no "text"'),
        (b'{"turns": [{"text": null}]}\n', 'turn 1: "text" is NoneType'),
        (b'{"turns": [{"text": "a", "speaker": 1}]}\n', 'turn 1: "speaker" is int'),
        (b'{"turns": [{"text": "a", "speaker": ""}]}\n', 'turn 1: "speaker" is empty'),
        (b'{"turns": ["a", "b"], "id": 7.5}\n', '"id" is float; write it in quotes'),
        (b'{"turns": ["a", "b"], "id": true}\n', '"id" is bool'),
        (b'{"turns": ["a", "b"], "id": ""}\n', '"id" is empty'),
        (b'{"turns": ["a", "b"], "meta": []}\n', '"meta" is not an object'),
        (b'{"turns": ["a", "half \\ud83d"]}\n', r".*half a character \(\\ud83d\)"),
        (
            b'{"turns": ["a", "b"], "meta": {"author": "half \\ud83d"}}\n',
            r".*half a character \(\\ud83d\)",
        ),
        (
            b'{"turns": ["a", "b"], "meta": {"warning": "half \\ud83d"}}\n',
            r".*half a character \(\\ud83d\)",
        ),
        (
            b'{"turns": ["caf\xe9"]}\n',
            "byte 16 of the line is not UTF-8; set data.corpus.encoding, such as cp1252",
        ),
    ],
)
def test_malformed_lines_are_reported_and_the_rest_read(
    tmp_path: Path, line: bytes, message: str
) -> None:
    corpus = folder_with(tmp_path, GOOD + line + GOOD.replace(b"good", b"last"))
    good, bad, last = corpus.dialogues("train")
    assert isinstance(bad, Malformed)
    assert re.search(rf"train\.jsonl:2: ?.*{message}", bad.message)
    assert "\n" not in bad.message
    assert [entry.id for entry in (good, last) if isinstance(entry, Dialogue)] == ["good", "last"]


def test_integer_ids_and_blank_lines_are_accepted(tmp_path: Path) -> None:
    corpus = folder_with(
        tmp_path, b'\n{"id": 7, "turns": ["a", "b"]}\n \n{"turns": ["a", "b"]}\n\n\n'
    )
    assert [entry.id for entry in corpus.dialogues("train")] == ["7", "train-4"]


def test_a_very_long_dialogue_has_a_warning(tmp_path: Path) -> None:
    lines = (json.dumps({"turns": ["a"] * number}) for number in (1000, 1001))
    short, long = folder_with(tmp_path, "\n".join(lines).encode()).dialogues("train")
    assert short.meta == {}
    assert "train.jsonl:2: a dialogue of 1,001 turns; check how" in str(long.meta[WARNING])


def test_surrogate_pairs_and_separators_are_text(tmp_path: Path) -> None:
    corpus = folder_with(tmp_path, '{"turns": ["\\ud83d\\ude00", "a\u2028b\\u0000"]}\n'.encode())
    (dialogue,) = corpus.dialogues("train")
    assert [turn.text for turn in dialogue.turns] == ["😀", "a\u2028b\0"]


def test_a_missing_path_or_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data\.path"):
        JsonLines(None)
    corpus = folder_with(tmp_path, GOOD)
    (tmp_path / "test.jsonl").unlink()
    with pytest.raises(UserError, match=r"test\.jsonl does not exist"):
        corpus.fingerprint()
    with pytest.raises(UserError, match="nowhere does not exist"):
        JsonLines(tmp_path / "nowhere").fingerprint()


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    corpus = folder_with(tmp_path, GOOD)
    (tmp_path / "train.jsonl").unlink()
    os.mkfifo(tmp_path / "train.jsonl")
    with pytest.raises(UserError, match=r"train\.jsonl is not a regular file"):
        list(corpus.dialogues("train"))
    with pytest.raises(UserError, match=r"train\.jsonl is not a regular file"):
        JsonLines(tmp_path / "train.jsonl").fingerprint()


def test_one_file_is_split_by_its_texts(tmp_path: Path) -> None:
    lines = [
        {"id": f"d{n}", "turns": [f"question {n % 150}", f"answer {n % 150}"]} for n in range(300)
    ]
    file = tmp_path / "all.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    corpus = JsonLines(file)
    splits = {split: list(corpus.dialogues(split)) for split in SPLITS}
    assert sorted(d.id for dialogues in splits.values() for d in dialogues) == sorted(
        str(d["id"]) for d in lines
    )
    words = [{d.turns for d in dialogues} for dialogues in splits.values()]
    assert sum(map(len, words)) == 150, "the same words are in two splits"
    for split, expected in zip(SPLITS, (240, 30, 30), strict=True):
        assert abs(len(splits[split]) - expected) < 30
        for dialogue in splits[split]:
            content = "\n".join(turn.text for turn in dialogue.turns)
            tenth = int(hashlib.sha256(content.encode()).hexdigest(), 16) % 10
            assert split == {8: "validation", 9: "test"}.get(tenth, "train")
    assert list(corpus.fingerprint()) == ["all.jsonl"]


@pytest.mark.parametrize("author", [None, ""])
def test_an_empty_author_does_not_group_dialogues(tmp_path: Path, author: str | None) -> None:
    file = tmp_path / "all.jsonl"
    lines = [{"turns": [f"question {n}", f"answer {n}"]} for n in range(100)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    without = [[d.turns for d in JsonLines(file).dialogues(split)] for split in SPLITS]
    file.write_text(
        "".join(json.dumps({**line, "meta": {"author": author}}) + "\n" for line in lines)
    )
    assert [[d.turns for d in JsonLines(file).dialogues(split)] for split in SPLITS] == without


def test_keys_can_be_chosen(tmp_path: Path) -> None:
    (tmp_path / "chats.jsonl").write_text(
        '{"log": [{"from": "Anna", "value": "Hi"}, {"from": "Bo", "value": "Ho"}]}\n'
    )
    corpus = JsonLines(tmp_path / "chats.jsonl", turns="log", speaker="from", text="value")
    (dialogue,) = [entry for split in SPLITS for entry in corpus.dialogues(split)]
    assert isinstance(dialogue, Dialogue)
    assert dialogue.turns == (Turn("Anna", "Hi"), Turn("Bo", "Ho"))


def test_a_pair_may_be_a_dialogue_and_a_file_one_array(tmp_path: Path) -> None:
    (tmp_path / "chats.json").write_text(
        '[{"q": "Hi", "a": "Ho"},\n {"q": "Who ?", "a": 3},\n {"q": "Me"}]\n'
    )
    corpus = JsonLines(tmp_path / "chats.json", context="q", response="a")
    entries = [entry for split in SPLITS for entry in corpus.dialogues(split)]
    assert sorted(type(entry) is Dialogue for entry in entries) == [False, False, True]
    (dialogue,) = [entry for entry in entries if isinstance(entry, Dialogue)]
    assert (dialogue.id[-1], [turn.text for turn in dialogue.turns]) == ("1", ["Hi", "Ho"])
    with pytest.raises(UserError, match="context and response"):
        JsonLines(tmp_path, context="q")
