"""Prepared data are complete or missing, and built again only for a reason."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dialog.data.corpora import Corpus
from dialog.data.corpora.builtin.builtin_dialogues import BuiltinDialogues
from dialog.data.corpora.jsonl import JsonLines
from dialog.data.dialogue import Dialogue
from dialog.data.store.manifest import read_manifest
from dialog.data.store.store import Store
from dialog.data.tokenizers import byte_bpe
from dialog.errors import UserError

SAMPLES = Path(__file__).parents[1] / "corpora" / "samples"
Built = Callable[..., Path]
Toys = Callable[..., Corpus]


def test_the_tokenizer_is_trained_on_train_only(tmp_path: Path, built: Built, toy: Toys) -> None:
    def trained(**splits: list[list[str]]) -> str:
        return Store(built(tmp_path, toy(**splits)), "train").tokenizer.fingerprint

    plain, strange = [["Hi .", "Hello ."]], [["zyzzyva " * 9, "zyzzyva " * 9]]
    assert (
        trained(train=plain, validation=strange)
        == trained(train=plain, test=strange)
        == trained(train=plain)
    )
    assert trained(train=plain + strange) != trained(train=plain)


def test_the_same_data_are_built_once(tmp_path: Path, built: Built, toy: Toys) -> None:
    tasks: list[str] = []

    def progress(task: str, done: int, total: int | None) -> None:
        tasks.append(task)

    folder = built(tmp_path, toy(), progress=progress)
    assert {"learning the tokenizer", "tokenising"} <= set(tasks)
    assert folder.parent == tmp_path
    assert folder.name.startswith("toy-")
    assert len(folder.name) == len("toy--v6") + 12
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    tasks.clear()
    assert built(tmp_path, toy(), progress=progress) == folder
    assert not tasks
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def test_two_builds_and_any_blocks_give_the_same_bytes(
    tmp_path: Path, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = BuiltinDialogues(size=40)
    folders = [built(tmp_path / name, corpus) for name in ("one", "two")]
    monkeypatch.setattr("dialog.data.preparation.filtering.BLOCK", 5)
    folders.append(built(tmp_path / "blocks", corpus))
    one, *others = [
        {path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders
    ]
    assert {folder.name for folder in folders} == {folders[0].name}
    assert others == [one, one]
    manifest = json.loads(one.pop("manifest.json"))
    assert manifest["files"] == {
        name: {"bytes": len(data), "sha256": [hashlib.sha256(data).hexdigest()] * bool(data)}
        for name, data in one.items()
    }


@pytest.mark.parametrize(
    "changed",
    [
        {"context_turns": 3},
        {"first_turns": True},
        {"max_source": 23},
        {"max_target": 8},
        {"tokenizer": {"name": "byte_bpe", "vocabulary": 300}},
        {"component": {"name": "toy", "lower": True}},
    ],
)
def test_another_setting_is_another_folder(
    tmp_path: Path, built: Built, toy: Toys, changed: dict[str, Any]
) -> None:
    assert built(tmp_path, toy(), **changed) != built(tmp_path, toy())


def test_a_tokenizer_file_counts_by_content(tmp_path: Path, built: Built, toy: Toys) -> None:
    def folder(name: str, text: str) -> Path:
        byte_bpe([text] * 2).save(tmp_path / name)
        return built(
            tmp_path / "prepared", toy(), tokenizer={"name": "file", "path": str(tmp_path / name)}
        )

    assert (
        folder("here.json", "Hi .")
        == folder("there.json", "Hi .")
        != folder("here.json", "Hello .")
    )


def test_a_corpus_counts_by_content(tmp_path: Path, built: Built) -> None:
    def copied(name: str) -> Path:
        (tmp_path / name).mkdir()
        for file in (SAMPLES / "jsonl").iterdir():
            (tmp_path / name / file.name).write_bytes(file.read_bytes())
        return tmp_path / name

    def folder(data: Path) -> Path:
        component = {"name": "jsonl", "path": str(data)}
        return built(tmp_path / "prepared", JsonLines(data), component=component)

    here, there = copied("here"), copied("there")
    assert folder(here) == folder(there)
    with (there / "test.jsonl").open("a") as file:
        file.write('{"id": "new", "turns": ["One more ?", "One more ."]}\n')
    assert folder(here) != folder(there)
    assert len(Store(folder(there), "test")) == len(Store(folder(here), "test")) + 1


KILLED = """
import os, signal, sys
from pathlib import Path
from dialog.data.examples import ExampleRules
from dialog.data.dialogue import Dialogue, Turn
from dialog.data.preparation.job import Job, Limits
from dialog.data.preparation.prepare import prepare

class Deadly:
    def dialogues(self, split):
        for number in range(3):
            if (split, number) == (sys.argv[2], 2):
                os.kill(os.getpid(), signal.SIGKILL)
            yield Dialogue(f"{split}-{number}", (Turn("A", "Hi ."), Turn("B", "Hello .")))

    def fingerprint(self):
        if sys.argv[2] == "end" and any(Path(sys.argv[1]).glob(".*/*/test.ids.bin")):
            os.kill(os.getpid(), signal.SIGKILL)
        return {"same": "always"}

tokenizer = {"name": "byte_bpe", "vocabulary": 400}
job = Job(Deadly(), {"name": "toy"}, tokenizer, rules=ExampleRules(2, False), limits=Limits(24, 9), max_dropped=1.0)
folder = prepare(job, Path(sys.argv[1]))
print(folder, "torch" in sys.modules)
"""


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("train", marks=pytest.mark.endurance),
        pytest.param("validation", marks=pytest.mark.endurance),
        "end",
    ],
)
def test_a_kill_never_looks_finished(tmp_path: Path, moment: str) -> None:
    def run(moment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", KILLED, str(tmp_path), moment]
        return subprocess.run(
            command, capture_output=True, text=True, cwd=Path(__file__).parents[3]
        )

    assert run(moment).returncode == -signal.SIGKILL
    (leftover,) = tmp_path.iterdir()
    assert leftover.name.startswith(".toy-")
    assert leftover.name.endswith(".partial")
    with pytest.raises(UserError, match=r"no manifest\.json"):
        Store(leftover, "train")
    whole = run("never")
    assert whole.returncode == 0, whole.stderr
    folder, with_torch = whole.stdout.split()
    assert with_torch == "False", "preparing needs no torch"
    assert len(Store(Path(folder), "test")) == 3


@pytest.mark.parametrize("damage", ["truncated", "missing", "manifest"])
def test_damaged_data_are_built_again(tmp_path: Path, built: Built, toy: Toys, damage: str) -> None:
    folder = built(tmp_path, toy())
    file = folder / ("manifest.json" if damage == "manifest" else "test.ids.bin")
    if damage == "missing":
        file.unlink()
    else:
        os.truncate(file, 1)
    with pytest.raises(UserError, match=rf"{file.name} is (missing or damaged|damaged)"):
        Store(folder, "train")
    assert built(tmp_path, toy()) == folder
    assert len(Store(folder, "test")) == 1


def read_all(folder: Path) -> None:
    """Read every array of prepared data."""
    for split in ("train", "validation", "test"):
        store = Store(folder, split)
        rows = np.arange(len(store))
        store.batch(rows)
        store.lines(0)
        assert len(store.lengths) == len(store.classes.order[:])
        assert store.tokenizer


def test_flipped_bit_in_any_file_is_found(tmp_path: Path, built: Built, toy: Toys) -> None:
    folder = built(tmp_path, toy())
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        for place in range(0, len(content), max(len(content) // 5, 1)):
            path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            with pytest.raises(UserError, match=rf"{path.name} (is (missing or )?damaged|has fo)"):
                read_all(folder)
        path.write_bytes(content)
    read_all(folder)


def test_blocks_are_hashed_once_when_first_read(
    tmp_path: Path, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dialog.data.store.arrays.BLOCK", 64)
    folder = built(tmp_path, BuiltinDialogues(size=400))
    path = folder / "train.ids.bin"
    listed = read_manifest(folder)["files"][path.name]["sha256"]
    assert len(listed) == -(-path.stat().st_size // 64) > 3
    hashed: list[bytes] = []

    def count(content: bytes) -> Any:
        hashed.append(bytes(content))
        return hashlib.sha256(content)

    monkeypatch.setattr("dialog.data.store.arrays.sha256", count)
    store = Store(folder, "train")
    for opened in (store, Store(folder, "train")):
        opened.batch([0])
        assert [hashed.count(path.read_bytes()[place:][:64]) for place in (0, -64)] == [1, 0]
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    again = Store(folder, "train")
    assert again.source(0).tolist() == store.source(0).tolist()
    with pytest.raises(UserError, match=rf"{path.name} is damaged \(block {len(listed) - 1},"):
        again.target(len(again) - 1)


def test_an_error_leaves_nothing_behind(tmp_path: Path, built: Built, toy: Toys) -> None:
    with pytest.raises(UserError, match="the split test gives no example"):
        built(tmp_path, toy(test=[["no answer"], []]))
    assert list(tmp_path.iterdir()) == []


class Interrupted:
    """A corpus that calls a function before a split is read."""

    def __init__(self, corpus: Corpus, split: str | None, call: Callable[[], object]) -> None:
        self.corpus, self.split, self.call = corpus, split, call

    def dialogues(self, split: str) -> Iterator[Dialogue]:
        if self.split in (None, split):
            self.call()
        yield from self.corpus.dialogues(split)

    def fingerprint(self) -> Mapping[str, str]:
        return self.corpus.fingerprint()


def test_a_corpus_that_changes_meanwhile_is_an_error(
    tmp_path: Path, built: Built, toy: Toys
) -> None:
    corpus = toy(test=[["Hi", "Ho"]])
    changing = Interrupted(
        corpus, "test", lambda: corpus.splits["test"].append(["late", "arrival"])
    )
    with pytest.raises(UserError, match="changed while it was read"):
        built(tmp_path, changing)
    assert list(tmp_path.iterdir()) == []


def test_the_first_of_two_preparations_wins(tmp_path: Path, built: Built, toy: Toys) -> None:
    folder = built(tmp_path, Interrupted(toy(), "test", lambda: built(tmp_path, toy())))
    assert list(tmp_path.iterdir()) == [folder] == [built(tmp_path, toy())]


def test_leftovers_beside_complete_data_are_removed(
    tmp_path: Path, built: Built, toy: Toys
) -> None:
    folder = built(tmp_path, toy())
    (tmp_path / f".{folder.name}.0123abcd.partial" / "shards").mkdir(parents=True)
    assert built(tmp_path, toy()) == folder
    assert list(tmp_path.iterdir()) == [folder]


def test_no_partial_folder_in_use_is_removed(
    tmp_path: Path, built: Built, toy: Toys, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise UserError("broken")

    def interfere() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "mkdir", mkdir)
            with pytest.raises(UserError, match="broken"):
                built(tmp_path, Interrupted(toy(), None, fail))

    mkdir = Path.mkdir

    def mkdir_and_interfere(path: Path, *arguments: object, **named: object) -> None:
        mkdir(path, *arguments, **named)
        interfere()

    monkeypatch.setattr(Path, "mkdir", mkdir_and_interfere)
    folder = built(tmp_path, Interrupted(toy(), None, interfere))
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("changed", [{"context_turns": -1}, {"max_source": 0}, {"max_target": 0}])
def test_limits_out_of_range_are_errors_with_key(
    tmp_path: Path, built: Built, toy: Toys, changed: dict[str, int]
) -> None:
    (key,) = changed
    with pytest.raises(UserError, match=rf"data\.{key}"):
        built(tmp_path, toy(), **changed)
