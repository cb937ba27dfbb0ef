"""Programs as contenders: their answers, bad lines, crashes and resumption."""

from __future__ import annotations

import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dialog.comparison.systems.answers import ANSWERS, SYSTEM, Answers, answered
from dialog.comparison.systems.program import answer_contexts
from dialog.comparison.systems.specification import Specification, parse_system
from dialog.errors import UserError

ROWS = [
    {"id": f"d{n}#1", "dialogue_id": f"d{n}", "context": [f"question {n}"], "references": ["x"]}
    for n in range(6)
]
HEAD = """
import json, os, sys, time
def rows():
    for line in sys.stdin:
        yield json.loads(line)
def say(name, text="fine", **more):
    print(json.dumps({"id": name, "response": text, **more}), flush=True)
"""
PLAIN = "for row in rows(): say(row['id'], row['context'][0], nll=1.5)"


def program(folder: Path, body: str) -> Specification:
    path = folder / "mine.py"
    path.write_text(HEAD + body, encoding="utf-8")
    return Specification("mine", shlex.join([sys.executable, "-S", "-E", str(path)]))


def lines(folder: Path) -> list[dict[str, Any]]:
    path = folder / "mine" / ANSWERS
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run(folder: Path, body: str, seconds: float = 60.0) -> None:
    answers = Answers(folder / "mine", "mine", [row["id"] for row in ROWS])
    answer_contexts(program(folder, body), ROWS, answers, seconds=seconds)


def test_answers_are_stored_with_what_answered(tmp_path: Path) -> None:
    report = "print(json.dumps({'system': {'model': 'm'}}))\n"
    all_at_once = (
        f"{report}for row in list(rows())[::-1]: say(row['id'], 'Grüße \\x07', nll=2, a=1)"
    )
    run(tmp_path, all_at_once)
    kept = lines(tmp_path)
    assert [row["id"] for row in kept] == [row["id"] for row in ROWS][::-1]
    assert kept[0] == {"id": "d5#1", "response": "Grüße \x07", "nll": 2}
    stored = json.loads((tmp_path / "mine" / SYSTEM).read_text(encoding="utf-8"))
    assert (stored["examples"], [*map(len, stored["files"].values())]) == (6, [64])
    assert [(one["model"], one["answers"]) for one in stored["sessions"]] == [("m", 6)]
    assert answered(tmp_path / "mine") == (6, 6)


CRASH = "for place, row in enumerate(rows()):\n    if place == 2: os._exit(3)\n    say(row['id'])"
SKIP = "for row in list(rows())[:2]: say(row['id'])"
HANG = "for place, row in enumerate(rows()):\n    if place == 2: time.sleep(60)\n    say(row['id'])"
KILLED = CRASH.replace("os._exit(3)", "os.kill(os.getpid(), 9)")


@pytest.mark.parametrize("body", [CRASH, SKIP, KILLED, HANG])
def test_a_program_is_started_again_for_the_missing_ids(tmp_path: Path, body: str) -> None:
    run(tmp_path, body, seconds=60.0 if body != HANG else 1.0)
    assert [row["id"] for row in lines(tmp_path)] == [row["id"] for row in ROWS]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("sys.exit('no model \\x1b[31m here')", r"mine: ended with exit code 1 \(no model \\x1b"),
        ("for row in rows(): say('invented')", 'mine: answered id "invented", which is not in'),
        ("for row in rows(): say('d0#1')", 'mine: answered id "d0#1" twice'),
        ("for row in rows(): say(row['id'], 3)", 'the response to id "d2#1" is 3'),
        ("for row in rows(): say(row['id'], 'x' * 10**5 + 'y')", "has 100,001 characters"),
        ("for row in rows(): say(row['id'], 'x' * 10**7)", "a line of more than 1,000,000 bytes"),
        ("for row in rows(): say(row['id'], '\\ud800')", "lone surrogate"),
        ("print('Loading ...', flush=True)\nfor row in rows(): pass", "which is not JSON"),
        ("print('[' * 5000, flush=True)\nfor row in rows(): pass", "which is not JSON"),
        ("print('[1]', flush=True)\nfor row in rows(): pass", "has no id"),
        ("for row in rows(): print(json.dumps({'id': 'd2#1', 'error': 'too \x1b long'}))", "too"),
    ],
)
def test_a_bad_program_gives_one_line(tmp_path: Path, body: str, message: str) -> None:
    """And what it has answered before is kept."""
    once = str(tmp_path / "once")
    begin = (
        f"if not os.path.exists({once!r}):\n    open({once!r}, 'w')\n    {SKIP}\n    sys.exit()\n"
    )
    with pytest.raises(UserError, match=message) as failed:
        run(tmp_path, begin + body)
    assert "\n" not in str(failed.value)
    assert "\x1b" not in str(failed.value)
    assert len(lines(tmp_path)) >= 2


def test_a_later_command_continues(tmp_path: Path) -> None:
    """Half a line that a kill left is dropped; another program is not mixed with the first."""
    run(tmp_path, PLAIN)
    path = tmp_path / "mine" / ANSWERS
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:4])[:-9])
    run(tmp_path, PLAIN)
    assert path.read_bytes() == whole
    path.write_bytes(whole[:-9])
    with pytest.raises(UserError, match=r"mine\.py has changed since the first 5 answers"):
        run(tmp_path, PLAIN + "  # better")
    path.write_bytes(whole.replace(b"d1#1", b"other"))
    with pytest.raises(UserError, match=r"answers\.jsonl:2: not an answer to these contexts"):
        run(tmp_path, PLAIN)


def test_a_program_that_hangs_ends_with_its_children(tmp_path: Path) -> None:
    body = "import subprocess\nsubprocess.Popen(['sleep', '600'])\nsubprocess.run(['sleep', '600'])"
    began = time.monotonic()
    with pytest.raises(UserError, match=r"gave no answer within 0\.5 seconds; 0 of 6 contexts"):
        run(tmp_path, body, seconds=0.5)
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    "text",
    ["mine", "mine:", ": python x.py", "../up: true", "mine: 'open", "mine: hf:", "a/b: true"],
)
def test_systems_that_cannot_be_read(text: str) -> None:
    with pytest.raises(UserError, match="--system"):
        parse_system(text)


def test_a_command_that_does_not_exist(tmp_path: Path) -> None:
    system = parse_system("mine: no-such-program --x")
    with pytest.raises(UserError, match="mine: no-such-program cannot be started"):
        answer_contexts(system, ROWS, Answers(tmp_path, "mine", ["d0#1"]), seconds=1.0)


def test_a_program_that_is_the_first_word_is_one_of_its_files(tmp_path: Path) -> None:
    script = tmp_path / "answer"
    script.write_text("", encoding="utf-8")
    assert [*Specification("mine", f"{script} x").fingerprint()["files"]] == [str(script)]
    assert Specification("mine", f"{sys.executable} x").fingerprint()["files"] == {}
