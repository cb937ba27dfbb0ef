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
    assert [turn.text for turn in second.turns] == ["Say `episode_done:True` !", "No .", "", "Bye ."]
    assert second.meta == {}


@pytest.mark.parametrize("bad", ["text:Hi !", "labels:Hi !", "1 Hi !\tHello .", "text:Hi !\teval_labels:Hello ."])
def test_what_is_malformed_is_named_and_the_rest_is_read(tmp_path: Path, bad: str) -> None:
    first, second, third = write(tmp_path, f"{GOOD}{bad}\tepisode_done:True\n{GOOD}").dialogues("train")
    assert isinstance(second, Malformed)
    assert "train.txt:2: no text or no labels" in second.message
    assert third.turns == first.turns


def test_files_may_have_other_names(tmp_path: Path) -> None:
    (tmp_path / "mine_valid.txt").write_text(GOOD)
    (dialogue,) = ParlAI(tmp_path, validation="mine_valid").dialogues("validation")
    assert dialogue.id == "validation-1"
