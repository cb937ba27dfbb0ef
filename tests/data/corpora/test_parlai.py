"""ParlAI's text format: fields, escapes, labels, episodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dialog.data.corpora.parlai import ParlAI
from dialog.data.dialogue import Malformed, Turn

GOOD = "text:Hi !\tlabels:Hello .\tepisode_done:True\n"


def write(folder: Path, train: str) -> ParlAI:
    for part in ("train", "valid", "test"):
        (folder / f"{part}.txt").write_text(train if part == "train" else GOOD)
    return ParlAI(folder)


def test_reads_episodes(tmp_path: Path) -> None:
    text = (
        "id:x\ttext:Hi: a\\nb\\tc__PIPE__d\tlabels:Hello .\treward:1\n\n"
        "text:Who ?\tlabels:Me .|I .\tlabel_candidates:x|y\tepisode_done:True\n"
        "text:Say `episode_done:True` !\tlabels:No .\n"
        "labels:Bye .\ttext:\n"
    )
    first, second = write(tmp_path, text).dialogues("train")
    assert (first.id, second.id) == ("train-1", "train-4")
    assert first.turns[:2] == (Turn("A", "Hi: a\nb\tc|d"), Turn("B", "Hello ."))
    assert first.turns[2:] == (Turn("A", "Who ?"), Turn("B", "Me ."))
    assert first.meta == {"labels": [["Hello ."], ["Me .", "I ."]]}
    assert [turn.text for turn in second.turns] == [
        "Say `episode_done:True` !",
        "No .",
        "",
        "Bye .",
    ]
    assert second.meta == {}


@pytest.mark.parametrize("bad", ["text:Hi !", "labels:Hi !", "text:Hi !\teval_labels:Hello ."])
def test_malformed_records_are_reported_and_the_rest_read(tmp_path: Path, bad: str) -> None:
    first, second, third = write(tmp_path, f"{GOOD}{bad}\tepisode_done:True\n{GOOD}").dialogues(
        "train"
    )
    assert isinstance(second, Malformed)
    assert "train.txt:2: no text or no labels" in second.message
    assert third.turns == first.turns


def test_reads_the_older_numbered_format(tmp_path: Path) -> None:
    text = (
        "1 Sam went out.\n2 Pat came in.\n3 Where is Sam?\tout|outside\t1\tin|out\n4 And"
        " Pat?\tin\n5 Ah.\n1 Hi !\tHello .\n2 1 or 2 ?\\nSay !\t2\n"
    )
    first, second = write(tmp_path, text).dialogues("train")
    assert first.turns[:2] == (
        Turn("A", "Sam went out.\nPat came in.\nWhere is Sam?"),
        Turn("B", "out"),
    )
    assert first.turns[2:] == (Turn("A", "And Pat?"), Turn("B", "in"), Turn("A", "Ah."))
    assert first.meta == {"labels": [["out", "outside"], ["in"]]}
    assert (second.id, [turn.text for turn in second.turns]) == (
        "train-6",
        ["Hi !", "Hello .", "1 or 2 ?\nSay !", "2"],
    )


@pytest.mark.parametrize("value", ["True ", "true", "1", "False", " "])
def test_any_value_ends_an_episode_as_in_parlai(tmp_path: Path, value: str) -> None:
    line = f"text:Hi !\tlabels:Hello .\tepisode_done:{value}\r\n"
    assert [entry.id for entry in write(tmp_path, line * 3).dialogues("train")] == [
        "train-1",
        "train-2",
        "train-3",
    ]


def test_an_empty_value_continues_an_episode(tmp_path: Path) -> None:
    (dialogue,) = write(tmp_path, "text:Hi !\tlabels:Hello .\tepisode_done:\n" * 2).dialogues(
        "train"
    )
    assert len(dialogue.turns) == 4


@pytest.mark.parametrize("mark", ["__SILENCE__", "<SILENCE>"])
def test_silence_is_not_a_turn(tmp_path: Path, mark: str) -> None:
    newer, older = f"text:{mark}\tlabels:Hello .\tepisode_done:True\n", f"1 {mark}\tHello .\n"
    for text in (newer, older):
        (dialogue,) = write(tmp_path, text).dialogues("train")
        assert dialogue.turns == (Turn("B", "Hello ."),)


def test_file_names_can_be_chosen(tmp_path: Path) -> None:
    (tmp_path / "mine_valid.txt").write_text(GOOD)
    (dialogue,) = ParlAI(tmp_path, validation="mine_valid").dialogues("validation")
    assert dialogue.id == "validation-1"
