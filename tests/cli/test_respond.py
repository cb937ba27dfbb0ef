"""``dialog respond``: JSON lines in, JSON lines out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Done, files

pytestmark = pytest.mark.usefixtures("here")


RESPOND_WRONG = [
    (b"not JSON\n", "questions:2: not JSON"),
    (b'{"text": "Hi"}\n', 'questions:2: needs {"context": [TEXT, ...]}'),
    (b'{"context": []}\n', 'questions:2: needs {"context": [TEXT, ...]}'),
    (b'{"context": "Hi"}\n', 'questions:2: needs {"context": [TEXT, ...]}'),
    (b'{"context": ["Hi", 3]}\n', 'questions:2: needs {"context": [TEXT, ...]}'),
    (b'{"context": ["\\ud800"]}\n', "questions:2: lone surrogate"),
    (b'["Hi"]\n', 'questions:2: needs {"context": [TEXT, ...]}'),
    (b"\n", "questions:2: not JSON"),
    (b'{"context": ["\xff"]}\n', "questions:2: not UTF-8 at byte 15"),
    (b"[" * 100_000 + b"\n", "questions:2: not JSON"),
]


def test_respond_writes_all_responses_or_none(
    here: Path, call: Callable[..., Done], trained: Callable[[str], Path]
) -> None:
    run = str(trained("transformer"))
    good = '{"context": ["Hello .", "Hi ! How are you ?"]}\n{"id": 7, "context": ["Good morning ."]}\n'
    (here / "questions").write_text(good, encoding="utf-8")
    done = call("respond", run, "--input", "questions", "--output", "answers")
    assert (done.code, done.out) == (0, "")
    answers = [json.loads(line) for line in (here / "answers").read_text(encoding="utf-8").splitlines()]
    assert [answer["id"] for answer in answers] == ["1", 7]
    assert answers[0]["context"] == ["Hello .", "Hi ! How are you ?"]
    assert [answer["response"] for answer in answers] == [answer["candidates"][0]["text"] for answer in answers]
    (here / "answers").unlink()
    before = files(here)
    for line, message in RESPOND_WRONG:
        (here / "questions").write_bytes(b'{"context": ["Hello ."]}\n' + line)
        done = call("respond", run, "--input", "questions", "--output", "answers")
        assert done.code == 2
        assert done.err.startswith(f"dialog: {message}")
        assert done.err.count("\n") == 1
        assert set(files(here)) == set(before)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["generation.search.name=gredy"], "generation: unknown search 'gredy'; did you mean 'greedy'?"),
        (["generation.search.name=os.getcwd"], "imports 'os.getcwd'; load it with --trust"),
        (["model.embedding_size=32"], "model.safetensors: does not fit the recipe"),
        (["modle.dropout=0"], "command line: modle: unknown key"),
        (["--input", "nowhere"], "nowhere: No such file"),
    ],
)
def test_errors_of_a_run_change_nothing(
    here: Path, call: Callable[..., Done], trained: Callable[[str], Path], arguments: list[str], message: str
) -> None:
    run = str(trained("transformer"))
    before = files(here)
    done = call("respond", run, *arguments)
    assert done.code == 2
    assert done.out == ""
    assert message in done.err
    assert done.err.count("\n") == 1
    assert files(here) == before


def test_closed_pipe_exits_with_141(trained: Callable[[str], Path]) -> None:
    command = [sys.executable, "-m", "dialog", "respond", str(trained("transformer"))]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.close()
    _, err = child.communicate(b'{"context": ["Hi"]}\n' * 3, timeout=60)
    assert child.returncode == 141
    assert err == b""
