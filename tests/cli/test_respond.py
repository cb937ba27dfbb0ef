"""``dialog respond``: JSON lines in, JSON lines out."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import Done, files

pytestmark = pytest.mark.usefixtures("here")


BAD_LINES = [
    (b"not JSON", "2", "not JSON"),
    (b'{"text": "Hi"}', "2", 'needs {"context": [TEXT, ...]}'),
    (b'{"id": "x", "context": "Hi"}', "x", 'needs {"context": [TEXT, ...]}'),
    (b'{"context": ["Hi", 3]}', "2", 'needs {"context": [TEXT, ...]}'),
    (b'{"id": 7, "context": ["\\ud800"]}', 7, "lone surrogate"),
    (b'["Hi"]', "2", 'needs {"context": [TEXT, ...]}'),
    (b'{"context": ["\xff"]}', "2", "not UTF-8 at byte 15"),
    (b"[" * 100_000, "2", "not JSON"),
    (
        b'{"id": "x", "context": ["Hi"], "a": ' + b"[" * 100 + b"]" * 100 + b"}",
        "x",
        "nested more than 100 levels deep",
    ),
    (
        b'{"context": ["Hi"], "id": ' + b'{"a": ' * 700 + b"1" + b"}" * 700 + b"}",
        "2",
        "nested more than 100 levels",
    ),
]


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_lines_are_answered_in_order(
    here: Path, call: Callable[..., Done], trained: Callable[[str], Path]
) -> None:
    run = str(trained("transformer"))
    lines = [
        '{"context": ["Hello .", "Hi ! How are you ?"]}',
        " ",
        '{"id": 7, "context": ["Good morning ."]}',
        "",
    ]
    (here / "questions").write_text("\n".join([*lines, '{"context": []}']), encoding="utf-8")
    done = call("respond", run, "--input", "questions", "--output", "answers")
    assert (done.code, done.out, done.err) == (0, "", "")
    answers = rows(here / "answers")
    assert [answer["id"] for answer in answers] == ["1", 7, "5"]
    assert [answer["context"] for answer in answers] == [
        ["Hello .", "Hi ! How are you ?"],
        ["Good morning ."],
        [],
    ]
    assert [answer["response"] for answer in answers] == [
        answer["candidates"][0]["text"] for answer in answers
    ]


def test_bad_line_gets_an_error_in_its_place(
    here: Path, call: Callable[..., Done], trained: Callable[[str], Path]
) -> None:
    run, good = str(trained("transformer")), b'{"context": ["Hello ."]}\n'
    for number, (line, name, message) in enumerate(BAD_LINES):
        (here / "questions").write_bytes(good + line + b"\n" + good)
        done = call("respond", run, "--input", "questions", "--output", f"answers-{number}")
        assert done.code == 2
        assert done.err.startswith(f"dialog: questions:2: {message}")
        assert done.err.count("\n") == 1
        first, bad, last = rows(here / f"answers-{number}")
        assert first["response"] == last["response"]
        assert (bad["id"], list(bad)) == (name, ["id", "error"])
        assert bad["error"].startswith(f"questions:2: {message}")
    (here / "questions").write_bytes(b"\n".join(line for line, *_ in BAD_LINES))
    done = call("respond", run, "--input", "questions")
    assert done.err.endswith(f" (and {len(BAD_LINES) - 1} more lines)\n")
    assert done.out.count('"error"') == len(BAD_LINES)


def test_responses_of_an_evaluation_are_valid_input(
    here: Path, call: Callable[..., Done], trained: Callable[[str], Path]
) -> None:
    run, drawn = str(trained("transformer")), ["generation=sampling", "data.first_turns=true"]
    assert call("evaluate", run, *drawn, "--name", "drawn").code == 0
    responses = trained("transformer") / "evaluation" / "test-drawn" / "responses.jsonl"
    assert call("respond", run, *drawn, "--input", str(responses), "--output", "answers").code == 0
    fields = ("id", "context", "response")
    assert [[row[key] for key in fields] for row in rows(here / "answers")] == [
        [row[key] for key in fields] for row in rows(responses)
    ]


def test_pipe_holds_a_conversation(trained: Callable[[str], Path]) -> None:
    command = [sys.executable, "-m", "dialog", "respond", str(trained("transformer"))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        context: list[str] = []
        try:
            for text in ("Hello .", "How are you ?", "Fine ."):
                context.append(text)
                child.stdin.write(json.dumps({"context": context}).encode() + b"\n")
                child.stdin.flush()
                assert select.select([child.stdout], [], [], 60)[0], (
                    "no answer before the next line"
                )
                context.append(json.loads(child.stdout.readline())["response"])
            child.stdin.close()
            assert child.wait(60) == 0
        finally:
            child.kill()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["generation.search.name=gredy"],
            "generation: unknown search 'gredy'; did you mean 'greedy'?",
        ),
        (["generation.search.name=os.getcwd"], "imports 'os.getcwd'; pass --trust"),
        (["model.embedding_size=32"], "model.safetensors: does not fit the recipe"),
        (["modle.dropout=0"], "command line: modle: unknown key"),
        (["--input", "nowhere"], "nowhere: No such file"),
    ],
)
def test_errors_of_a_run_change_nothing(
    here: Path,
    call: Callable[..., Done],
    trained: Callable[[str], Path],
    arguments: list[str],
    message: str,
) -> None:
    run = str(trained("transformer"))
    before = files(here)
    done = call("respond", run, *arguments)
    assert done.code == 2
    assert done.out == ""
    assert message in done.err
    assert done.err.count("\n") == 1
    assert files(here) == before


@pytest.mark.endurance
def test_closed_pipe_exits_with_141(trained: Callable[[str], Path]) -> None:
    command = [sys.executable, "-m", "dialog", "respond", str(trained("transformer"))]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.close()
    _, err = child.communicate(b'{"context": ["Hi"]}\n' * 3, timeout=60)
    assert child.returncode == 141
    assert err == b""
