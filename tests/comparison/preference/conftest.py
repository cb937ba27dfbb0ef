"""A finished comparison of files: two runs of `long`, one of `short`, on 12 dialogues of 3 turns."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dialog.cli import main

HOSTILE = '</script><img src=//evil.example onerror=alert(1)> \x1b[2J \u202e " =1+1'


def response(dialogue: int, turn: int, words: int) -> str:
    """Return a response of some words; that of one example is hostile."""
    if (dialogue, turn) == (1, 1):
        return HOSTILE + " x" * words
    return " ".join(f"w{dialogue}{turn}{word}" for word in range(words))


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In four of five examples `long` has the longer response; one in twelve pairs is equal."""
    root = tmp_path_factory.mktemp("preference")
    places = [(dialogue, turn) for dialogue in range(12) for turn in range(3)]
    words = {
        "a0": [5 if n % 5 else 2 for n in range(36)],
        "a1": [6 if n % 5 else 1 for n in range(36)],
        "b0": [5 if n % 12 == 1 else 3 for n in range(36)],
    }
    for name, sizes in words.items():
        lines = [
            {
                "id": f"d{dialogue}#{turn}",
                "dialogue_id": f"d{dialogue}",
                "context": [f"question {dialogue}", f"of turn {turn} {HOSTILE}"],
                "reference": f"the answer to question {dialogue} in turn {turn}",
                "response": response(dialogue, turn, size),
            }
            for (dialogue, turn), size in zip(places, sizes, strict=True)
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (root / f"{name}.jsonl").write_text(text, encoding="utf-8")
    arguments = ["long=a0.jsonl,a1.jsonl", "short=b0.jsonl", "--output", "out"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setattr(sys, "argv", ["dialog", "compare", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code
    return root


@pytest.fixture
def folder(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the finished comparison, below the current folder."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "out"


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    """``program(body)``: the command of a judge with this body for each row."""

    def write(body: str) -> str:
        path = tmp_path / "judge.py"
        lines = f"import json, os, sys\nfor line in sys.stdin:\n    row = json.loads(line)\n{body}"
        answer = "\n    print(json.dumps({'id': row['id'], 'choice': choice}), flush=True)\n"
        path.write_text(lines + answer, encoding="utf-8")
        return f"{sys.executable} -S -E {path}"

    return write
