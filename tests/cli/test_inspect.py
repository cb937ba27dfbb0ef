"""``dialog inspect`` on a small corpus with planted faults."""

from __future__ import annotations

import errno
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from program import Done

from dialog.cli.inspect import inspect
from dialog.cli.options import check_new_file
from dialog.errors import UserError
from dialog.escaping import printable

SHARED = ["Where did you put the hat ?", "On the big table ."]


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of JSON lines: one test dialogue leaks, one training dialogue repeats."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DIALOG_CACHE", str(tmp_path / "cache"))
    splits = {
        "train": [
            SHARED,
            ["Hi !", "Hello ."],
            ["Hi !", "Hello ."],
            ["I see __eou__", "you\u00a0do"],
        ],
        "validation": [["Good morning .", "Good night ."]],
        "test": [["Well ?", *SHARED], ["It is cold outside .", "Take a coat 🙂"]],
    }
    for split, dialogues in splits.items():
        lines = (
            json.dumps({"id": f"{split}{n}", "turns": turns}) for n, turns in enumerate(dialogues)
        )
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def process(call: Callable[..., Done]) -> Callable[..., Done]:
    """``process(folder, *arguments)``: inspect a corpus in this process."""
    command = ["inspect", "quickstart/transformer", "data.corpus={name: jsonl}"]
    return lambda folder, *arguments: call(*command, f"data.path={folder}", *arguments)


def test_report_names_problems_and_advice(corpus: Path, process: Callable[..., Done]) -> None:
    done = process(corpus)
    assert done.code == 0, done.err
    assert "✗ Leaks between splits" in done.out
    assert "data.filters=[{name: drop_leaking_dialogues}]" in done.out
    assert "data.filters=[{name: drop_duplicates}]" in done.out
    assert "\x1b" not in done.out
    assert max(map(len, done.out.splitlines())) <= 110


def test_json_is_complete_and_reproducible(corpus: Path, process: Callable[..., Done]) -> None:
    first, second = process(corpus, "--json"), process(corpus, "--json", "--html", "page.html")
    assert first.code == second.code == 0, first.err + second.err
    found = json.loads(first.out)
    assert found == json.loads(second.out)
    assert found["splits"]["train"] == {"dialogues": 4, "turns": 8}
    findings = found["findings"]
    assert (findings["leak"]["test"]["leaked"], findings["leak"]["test"]["clean"]) == (
        ["test0"],
        ["test1"],
    )
    assert (
        findings["duplicates"]["normalisations"]["verbatim"]["repeated"]["train"]["dialogues"] == 1
    )
    assert findings["reserved"]["__eou__"]["train"] == 1
    assert findings["characters"]["odd"]["U+00A0"]["first"] == "train3 (train.jsonl:4)"
    assert findings["tokens"]["test"]["parts"] > 0
    assert all(
        {"state", "headline", "summary", "advice"} <= set(each) for each in findings.values()
    )
    assert "On the big table ." in (corpus / "page.html").read_text(encoding="utf-8")


def test_unreadable_files_are_reported_before_any_progress(
    corpus: Path, process: Callable[..., Done]
) -> None:
    (corpus / "table.csv").write_text("speaker,text\nA,Hi\n", encoding="utf-8")
    done = process(corpus, "data.corpus={name: csv}", "data.path=table.csv")
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith("dialog: table.csv:1: no column 'dialogue' among speaker, text")


def test_control_characters_are_escaped(corpus: Path, process: Callable[..., Done]) -> None:
    hostile = "\x1b]0;x\x07\x7f\x9b31m\u202e\u2028 你好"
    row = {"id": hostile, "turns": [{"speaker": hostile, "text": hostile}] * 2}
    for split in ("train", "test"):
        (corpus / f"{split}.jsonl").write_text(
            json.dumps(row, ensure_ascii=False), encoding="utf-8"
        )
    for arguments in (["--json"], []):
        done = process(corpus, "--no-tokens", *arguments)
        assert done.code == 0, done.err
        assert printable(done.out) == done.out
        assert "你好" in done.out
        assert (
            not arguments or hostile in json.loads(done.out)["findings"]["leak"]["test"]["leaked"]
        )


def test_needs_no_torch(corpus: Path) -> None:
    code = (
        "import sys; from dialog.cli import main\ntry:\n    main()\nfinally:\n    print('torch' in"
        " sys.modules)"
    )
    arguments = [
        "inspect",
        "quickstart/transformer",
        "data.corpus={name: jsonl}",
        f"data.path={corpus}",
        "--json",
    ]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("False\n")


def test_malformed_records_are_counted_and_named(
    corpus: Path, process: Callable[..., Done]
) -> None:
    with (corpus / "train.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"turns": ["a", \n')
    done = process(corpus, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)["findings"]
    assert found["records"]["train"]["malformed"] == 1
    assert "train.jsonl:5: not JSON" in found["records"]["first_malformed"][0]
    assert found["tokens"]["train"]["examples"] == 4


def test_missing_token_statistics_are_a_finding(corpus: Path, process: Callable[..., Done]) -> None:
    (corpus / "validation.jsonl").write_text('{"turns": ["alone"]}\n', encoding="utf-8")
    done = process(corpus)
    assert done.code == 0, done.err
    assert re.search("! Tokens and truncation +not counted", done.out)
    assert "the split validation gives no example" in " ".join(done.out.split())
    assert "gives no example" not in done.err


def test_no_tokens_gives_no_finding(corpus: Path, process: Callable[..., Done]) -> None:
    done = process(corpus, "--json", "--no-tokens")
    assert "tokens" not in json.loads(done.out)["findings"]


def test_page_is_never_overwritten(corpus: Path, process: Callable[..., Done]) -> None:
    (corpus / "page.html").write_text("mine")
    done = process(corpus, "--html", "page.html")
    assert done.code == 2
    assert done.err.startswith("dialog: page.html exists; choose another --html")
    assert (corpus / "page.html").read_text() == "mine"


@pytest.mark.parametrize(
    "page", ["nowhere/x.html", "train.jsonl/x.html", f"{'x' * 300}.html"], ids=len
)
def test_page_path_is_checked_before_the_corpus_is_read(
    corpus: Path, page: str, process: Callable[..., Done]
) -> None:
    done = process(corpus / "no corpus", "--html", page)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"dialog: {page}: cannot be written (")
    assert done.err.endswith("); choose another --html\n")
    assert done.err.count("\n") == 1


def test_check_of_a_page_path_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"null byte.*choose another --html"):
        check_new_file(tmp_path / "a\0b", "--html")
    check_new_file(tmp_path / "page.html", "--html")
    assert not list(tmp_path.iterdir())


def test_text_is_printed_if_the_page_fails(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("dialog.inspection.output.write_html", fails)
    arguments = [
        "quickstart/transformer",
        "data.corpus={name: jsonl}",
        f"data.path={corpus}",
        "--no-tokens",
    ]
    done = CliRunner().invoke(inspect, [*arguments, "--html", "page.html"])
    assert isinstance(done.exception, UserError)
    assert (
        str(done.exception)
        == "page.html: cannot be written (Input/output error); choose another --html"
    )
    assert "✗ Leaks between splits" in done.stdout


def test_missing_corpus_is_one_line(corpus: Path, process: Callable[..., Done]) -> None:
    done = process(corpus / "nowhere")
    assert done.code == 2
    assert "nowhere" in done.err
    assert "Traceback" not in done.err


def test_unreadable_corpus_is_reported_once(corpus: Path, process: Callable[..., Done]) -> None:
    (corpus / "train.jsonl").unlink()
    done = process(corpus)
    assert done.code == 2
    assert done.err.splitlines()[-1].startswith(f"dialog: {corpus / 'train.jsonl'} does not exist")
    assert done.err.count("does not exist") == 1
