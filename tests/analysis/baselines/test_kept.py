"""The cache of reference rows: used if nothing changed, never if it is damaged or of something
else.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import dialog.analysis.baselines.kept as kept_module
from dialog.analysis.baselines.kept import find_baselines, hash_code, read_or_compute
from dialog.analysis.baselines.rows import Baselines
from dialog.build import build_job
from dialog.config.compose import compose
from dialog.data.preparation.job import Job
from dialog.metrics import F1

SETTINGS = {"corpus": "abc", "rules": {"context_turns": 3}}
ROWS = Baselines(
    ["d1"],
    {"all": {"human": {"f1": 100.0}}, "clean": {}, "leaked": {"human": {"f1": float("nan")}}},
)
WRITTEN = Baselines(
    ["d1"], {"all": {"human": {"f1": 100.0}}, "clean": {}, "leaked": {"human": {"f1": None}}}
)


class Counted:
    """Counts how often the rows are computed."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> Baselines:
        self.calls += 1
        return ROWS


def test_computed_once(tmp_path: Path) -> None:
    compute, file = Counted(), tmp_path / "new" / "rows.json"
    assert [read_or_compute(file, SETTINGS, compute) for _ in range(3)] == [WRITTEN] * 3
    assert compute.calls == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("100.0", "99.0"),
        lambda text: text.replace("d1", "d2"),
        lambda text: "[]",
        lambda text: "",
        lambda text: "[" * 100_000,
    ],
)
def test_a_damaged_file_is_replaced(tmp_path: Path, damage: Callable[[str], str]) -> None:
    compute, file = Counted(), tmp_path / "rows.json"
    read_or_compute(file, SETTINGS, compute)
    file.write_text(damage(file.read_text(encoding="utf-8")), encoding="utf-8")
    assert read_or_compute(file, SETTINGS, compute) == WRITTEN
    assert compute.calls == 2
    assert read_or_compute(file, SETTINGS, compute) == WRITTEN
    assert compute.calls == 2


def test_a_file_of_other_settings_is_replaced(tmp_path: Path) -> None:
    compute, file = Counted(), tmp_path / "rows.json"
    read_or_compute(file, SETTINGS, compute)
    read_or_compute(file, {**SETTINGS, "corpus": "abd"}, compute)
    assert compute.calls == 2


def test_without_a_writable_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    compute = Counted()
    with caplog.at_level(logging.WARNING, "dialog"):
        assert read_or_compute(tmp_path / "file" / "rows.json", SETTINGS, compute) == WRITTEN
    assert "reference rows are computed every time" in caplog.text


def compute_slowly(file: Path, calls: Path) -> None:
    import time

    def compute() -> Baselines:
        with calls.open("a") as log:
            log.write("x")
        time.sleep(0.3)
        return ROWS

    read_or_compute(file, SETTINGS, compute)


def test_one_of_several_processes_computes(tmp_path: Path) -> None:
    context = get_context("fork")
    processes = [
        context.Process(target=compute_slowly, args=(tmp_path / "rows.json", tmp_path / "calls"))
        for _ in range(3)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert (tmp_path / "calls").read_text() == "x"


# ------------------------------------------------------------------ of a corpus


def corpus(folder: Path, test: str = "Where is the bank ?") -> Path:
    folder.mkdir()
    turns = {"train": "Where is the park ?", "validation": "Good morning .", "test": test}
    for split, text in turns.items():
        rows = [
            {"id": f"{split}-{number}", "turns": [text, f"Over there {number} ."]}
            for number in range(3)
        ]
        (folder / f"{split}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
        )
    return folder


def job(folder: Path, *overrides: str) -> Job:
    values = ["data.corpus={name: jsonl}", f"data.path={folder}", *overrides]
    return build_job(compose("quickstart/transformer", values).recipe)


@pytest.fixture
def computations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The splits for which rows are computed, in a cache of their own."""
    splits: list[str] = []

    def counted(job: Job, split: str, *arguments: object) -> Baselines:
        splits.append(split)
        return ROWS

    monkeypatch.setenv("DIALOG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kept_module, "compute_baselines", counted)
    return splits


def test_all_that_the_rows_depend_on_is_in_the_key(tmp_path: Path, computations: list[str]) -> None:
    here = corpus(tmp_path / "corpus")
    calls: list[tuple[Job, str, list[dict[str, Any]], str]] = [
        (job(here), "test", [], "und"),
        (job(corpus(tmp_path / "other", "Where is the park ?")), "test", [], "und"),
        (job(here, "data.first_turns=true"), "test", [], "und"),
        (job(here, "data.filters=[{name: length, max_words: 3}]"), "test", [], "und"),
        (job(here), "validation", [], "und"),
        (job(here), "test", [{"name": "distinct", "n": 3}], "und"),
        (job(here), "test", [], "zh"),
    ]
    for number, (of_job, split, metrics, language) in enumerate(calls, start=1):
        assert find_baselines(of_job, split, metrics, language=language, quiet=True) == WRITTEN
        assert len(computations) == number
    for of_job, split, metrics, language in calls:
        find_baselines(of_job, split, metrics, language=language, quiet=True)
    find_baselines(
        job(here, "seed=9", "data.batch_tokens=77"), "test", [], language="und", quiet=True
    )
    assert len(computations) == len(calls)


def test_moved_data_change_nothing(tmp_path: Path, computations: list[str]) -> None:
    here = corpus(tmp_path / "corpus")
    find_baselines(job(here), "test", [], language="und", quiet=True)
    find_baselines(job(here.rename(tmp_path / "moved")), "test", [], language="und", quiet=True)
    assert len(computations) == 1


@pytest.mark.parametrize("split", ["test", "train"])
def test_one_line_without_a_training_split(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, split: str
) -> None:
    here = corpus(tmp_path / "corpus")
    if split == "test":
        (here / "train.jsonl").unlink()
    with caplog.at_level(logging.WARNING, "dialog"):
        assert find_baselines(job(here), split, [], language="und", quiet=True) is None
    (record,) = caplog.records
    assert record.getMessage().startswith(
        "no reference rows, and no subsets of clean and leaked dialogues: "
    )
    assert "\n" not in record.getMessage()


class OwnMetric(F1):
    """A metric of another file."""


def test_code_of_own_metrics_is_hashed() -> None:
    assert hash_code([F1()]) == hash_code([])
    assert hash_code([OwnMetric()]) != hash_code([])
