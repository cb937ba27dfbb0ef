from __future__ import annotations

import json
from pathlib import Path

import pytest

from dialog.analysis.training_responses import read_training_responses
from dialog.build import build_job
from dialog.config.compose import compose


def job(folder: Path, **files: list[list[str]]) -> object:
    for split, dialogues in files.items():
        lines = [
            json.dumps({"id": f"{split}{number}", "turns": turns})
            for number, turns in enumerate(dialogues)
        ]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    overrides = ["data.corpus={name: jsonl}", f"data.path={folder}", "data.first_turns=false"]
    return build_job(compose("quickstart/lstm_bahdanau", overrides).recipe)


def test_copies_are_found_up_to_white_space(tmp_path: Path) -> None:
    responses = read_training_responses(
        job(tmp_path, train=[["Hi", "I  am fine .", "Good"], ["Hi", "Bye"]])
    )
    answers = ["I am fine .", " Bye\n", "i am fine .", "Hi", "", "Good"]
    # first turns: no responses
    assert responses.contain(answers).tolist() == [True, True, False, False, False, True]


def test_without_a_training_split(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert read_training_responses(job(tmp_path, test=[["Hi", "Bye"]])) is None
    assert "train_copy_ratio: it is left out" in caplog.text


def test_runs_of_one_corpus_read_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rest = {"validation": [["Hi", "Bye"]], "test": [["Hi", "Bye"]]}
    first = read_training_responses(job(tmp_path, train=[["Hi", "Good"]], **rest))
    with monkeypatch.context() as patch:
        patch.setattr(
            "dialog.analysis.training_responses.examples", lambda *_: pytest.fail("read again")
        )
        assert read_training_responses(job(tmp_path)).hashes is first.hashes
    changed = read_training_responses(job(tmp_path, train=[["Hi", "Bad"]]))
    assert changed.contain(["Good", "Bad"]).tolist() == [False, True]
