"""Evaluations have hashes: changed files are detected, and a process that is killed leaves no
mixture of two.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner

import dialog
from dialog.atomic import folder_lock
from dialog.cli.verify import verify as verb
from dialog.comparison.grid.contenders import responses_contender
from dialog.data.reading.files import sha256
from dialog.errors import UserError
from dialog.runs.evaluation import evaluate as module
from dialog.runs.evaluation.evaluate import evaluate
from dialog.runs.evaluation.evaluated import (
    FILES,
    Evaluated,
    check_evaluation,
    current_evaluation,
    replacing_evaluation,
)
from dialog.runs.folder import read_recipe
from dialog.runs.verify import verify
from dialog.training.checkpoints.manifest import read_manifest


def current(run: Path) -> Evaluated | None:
    return current_evaluation(run, read_recipe(run), "test", None)


def states(run: Path) -> dict[str, str]:
    """States of the evaluation of the test split, and of its files."""
    return {
        file.file: file.state for file in verify(run) if file.file.startswith("evaluation/test")
    }


def better_metrics(path: Path) -> None:
    metrics = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**metrics, "bits_per_byte": 0.5}), encoding="utf-8")


def references_as_responses(path: Path) -> None:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    changed = [json.dumps({**row, "response": row["reference"]}) + "\n" for row in rows]
    path.write_text("".join(changed), encoding="utf-8")


def flipped_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_manifest_lists_files_and_inputs(trained: Callable[[str], Path]) -> None:
    run = trained("transformer")
    folder = run / "evaluation" / "test"
    hashes, metrics = (
        read_manifest(folder),
        json.loads((folder / "metrics.json").read_text(encoding="utf-8")),
    )
    assert hashes is not None
    # A comparison of the same run may have added its measurements.
    assert hashes.keys() - {"context_use.json", "attention.json"} == {
        "weights",
        "settings",
        "data",
        *FILES,
    }
    assert {name: hashes[name] for name in FILES} == {name: sha256(folder / name) for name in FILES}
    assert hashes["weights"] == metrics["weights"] == sha256(run / "model.safetensors")
    assert hashes["data"] == metrics["fingerprint"]
    assert states(run).items() >= {f"evaluation/test/{name}": "intact" for name in FILES}.items()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("metrics.json", better_metrics),
        ("responses.jsonl", references_as_responses),
        ("statistics.safetensors", flipped_bit),
        ("cost.json", flipped_bit),
    ],
)
def test_changed_files_of_an_evaluation_are_errors(
    copied: Path, name: str, change: Callable[[Path], None]
) -> None:
    assert current(copied) is not None
    file = copied / "evaluation" / "test" / name
    change(file)
    with pytest.raises(UserError, match=rf"test/{name}: has changed"):
        current(copied)
    with pytest.raises(UserError, match=rf"test/{name}: has changed"):
        responses_contender([file.with_name("responses.jsonl")], "other")
    assert [file for file, state in states(copied).items() if state != "intact"] == [
        f"evaluation/test/{name}"
    ]
    done = CliRunner().invoke(verb, [str(copied)], standalone_mode=False)
    assert isinstance(done.exception, UserError)
    assert f"evaluation/test/{name}" in str(done.exception)
    manifest = json.loads(file.with_name("manifest.json").read_text(encoding="utf-8"))
    del manifest[name]
    file.with_name("manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(UserError, match=rf"test/{name}: has changed"):
        current(copied)


def test_evaluation_of_an_older_version_is_used_with_a_warning(
    copied: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = current(copied)
    (copied / "evaluation" / "test" / "manifest.json").unlink()
    assert current(copied) == before
    (message,) = caplog.messages
    assert f"{copied / 'evaluation/test'}: not verified" in message
    assert states(copied) == {"evaluation/test": "unverified"}
    assert CliRunner().invoke(verb, [str(copied)], standalone_mode=False).exception is None


def test_evaluation_of_other_weights_is_outdated(copied: Path) -> None:
    """As after an extended training, or in the folder of another run."""
    path = copied / "evaluation" / "test" / "manifest.json"
    path.write_text(
        json.dumps({**json.loads(path.read_text(encoding="utf-8")), "weights": "0" * 64}),
        encoding="utf-8",
    )
    assert states(copied)["evaluation/test"] == "outdated"
    assert CliRunner().invoke(verb, [str(copied)], standalone_mode=False).exception is None


@pytest.mark.parametrize(
    "content", ['{"metrics.json": []}', "[" * 100_000, '["metrics.json"]', "\xff"]
)
def test_damaged_manifest_of_an_evaluation_is_an_error(copied: Path, content: str) -> None:
    (copied / "evaluation" / "test" / "manifest.json").write_text(content, encoding="latin-1")
    for read in (current, verify):
        with pytest.raises(UserError, match=r"evaluation/test/manifest\.json: damaged"):
            read(copied)


# ------------------------------------------------------------------ interruptions


def killed_at(change: int, folder: Path) -> bool:
    """Replace an evaluation in another process, killed before a change of the folder; return
    whether it was killed.
    """
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    changes = count()

    def counted(function: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: object) -> None:
            if next(changes) == change:
                os._exit(1)
            function(*arguments)

        return call

    os.replace, os.unlink = counted(os.replace), counted(os.unlink)
    write(folder, "new", counted(Path.write_text))
    os._exit(0)


def write(folder: Path, content: str, write_text: Callable[..., object] = Path.write_text) -> None:
    with replacing_evaluation(folder, {"content": content}, {"weights": content}):
        for name in FILES[1:]:
            write_text(folder / name, content)


def test_a_kill_leaves_no_mixture_of_two_evaluations(tmp_path: Path) -> None:
    """With metrics.json, all files are those of one evaluation, and a manifest lists them or is
    missing.
    """
    states = []
    for change in count():
        folder = tmp_path / str(change)
        write(folder, "old")
        killed = killed_at(change, folder)
        complete = (folder / "metrics.json").is_file()
        if complete:
            check_evaluation(folder)
            content = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))["content"]
            assert {(folder / name).read_text(encoding="utf-8") for name in FILES[1:]} == {content}
        states.append(content if complete else "none")
        if not killed:
            break
    assert list(dict.fromkeys(states)) == ["old", "none", "new"]
    assert len(states) > 6


def test_a_failed_evaluation_leaves_no_old_metrics(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would stand beside new responses; what a killed one has left is removed later."""

    def failing(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(module, "write_statistics", failing)
    with pytest.raises(ZeroDivisionError):
        evaluate(dialog.load(copied), "test", quiet=True)
    assert current(copied) is None
    assert not (copied / "evaluation" / "test" / "metrics.json").exists()
    assert states(copied) == {}
    monkeypatch.undo()
    left = [copied / "evaluation" / f".responses.jsonl.{name}.partial" for name in ("a", "b")]
    for folder in left:
        folder.mkdir()
        (folder / "responses.jsonl").write_text("{}\n")
    with folder_lock(left[1]):  # another evaluation, whose process lives
        evaluate(dialog.load(copied), "test", quiet=True)
    assert [folder.exists() for folder in left] == [False, True]
    assert set(states(copied).values()) == {"intact"}
