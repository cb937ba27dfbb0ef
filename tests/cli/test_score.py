"""``dialog score`` on trained runs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Done

import dialog

PAIRS = [
    (["Hello ."], "Hi ."),
    ([], "Good morning ."),
    (["How are you ?", "Fine ."], "我很好 !"),
    (["Hi"], ""),
]


@pytest.mark.parametrize("family", ["lstm", "transformer"])
def test_scores_are_those_of_the_program(
    family: str, here: Path, call: Callable[..., Done], trained: Callable[[str], Path]
) -> None:
    rows = [{"context": context, "response": response, "mark": 7} for context, response in PAIRS]
    (here / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    done = call("score", str(trained(family)), "--input", "pairs.jsonl")
    assert done.code == 0, done.err
    run = dialog.load(trained(family))
    answers = [json.loads(line) for line in done.out.splitlines()]
    for number, (answer, row) in enumerate(zip(answers, rows, strict=True), start=1):
        assert answer == {
            "id": str(number),
            **row,
            **{key: answer[key] for key in ("nll", "tokens", "bytes")},
        }
        assert answer["nll"] == pytest.approx(-run.score(row["context"], row["response"]), abs=1e-4)
        assert math.isfinite(answer["nll"])
        assert answer["tokens"] == len(run.tokenizer.encode(row["response"])) + 1
        assert answer["bytes"] == len(row["response"].encode())


def test_fields_of_a_reference_are_kept(
    here: Path, call: Callable[..., Done], trained: Callable[[str], Path]
) -> None:
    plain = {"id": "a", "context": ["Hello ."], "response": "Hi ."}
    measured = {**plain, "reference": "Good morning .", "nll": 1.5, "reference_tokens": 4}
    (here / "lines.jsonl").write_text(f"{json.dumps(plain)}\n{json.dumps(measured)}\n", "utf-8")
    first, second = map(
        json.loads, call("score", str(trained("lstm")), "--input", "lines.jsonl").out.splitlines()
    )
    scores = {f"response_{name}": pytest.approx(first[name]) for name in ("nll", "tokens", "bytes")}
    assert second == {**measured, **scores}


def test_a_line_without_a_response_is_an_error_in_its_place(
    here: Path, call: Callable[..., Done], trained: Callable[[str], Path]
) -> None:
    (here / "pairs.jsonl").write_text(
        '{"id": "a", "context": []}\n\n{"context": [], "response": "Hi"}\n', "utf-8"
    )
    done = call("score", str(trained("lstm")), "--input", "pairs.jsonl")
    assert done.code == 2
    first, second = map(json.loads, done.out.splitlines())
    assert first == {
        "id": "a",
        "error": 'pairs.jsonl:1: needs {"context": [TEXT, ...], "response": TEXT}',
    }
    assert second["id"] == "3"
    assert "pairs.jsonl:1: needs" in done.err


def test_a_deeply_nested_line_is_an_error_in_its_place(
    here: Path, call: Callable[..., Done], trained: Callable[[str], Path]
) -> None:
    line = '{"context": [], "response": "Hi", "a": %s}\n'
    lines = [line % ("[" * depth + "]" * depth) for depth in (99, 700, 1)]
    (here / "pairs.jsonl").write_text("".join(lines), "utf-8")
    done = call("score", str(trained("lstm")), "--input", "pairs.jsonl")
    assert (done.code, done.err) == (2, "dialog: pairs.jsonl:2: nested more than 100 levels deep\n")
    first, second, third = map(json.loads, done.out.splitlines())
    assert first["nll"] == third["nll"]
    assert second == {"id": "2", "error": "pairs.jsonl:2: nested more than 100 levels deep"}
