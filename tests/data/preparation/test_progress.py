"""Progress of every pass, of shards, and of the merge."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dialog.data.dialogue import SPLITS
from dialog.data.preparation.division import Division, write_division
from dialog.data.preparation.job import Job
from dialog.data.preparation.prepare import merge_shards, prepare, prepare_shard
from dialog.data.preparation.shards import report_progress
from dialog.data.reading.parts import Part

pytestmark = pytest.mark.usefixtures("small_blocks")
BLOCK, SIZE = 64, 199
HELD_OUT = SIZE // 10
"""Dialogues of validation, and of test."""
Jobs = Callable[..., Job]


class Recorder:
    """Records the reports of each task."""

    def __init__(self) -> None:
        self.reports: dict[str, list[tuple[int, int | None]]] = {}

    def __call__(self, task: str, done: int, total: int | None) -> None:
        self.reports.setdefault(task, []).append((done, total))


def test_the_total_is_known_once_small_splits_are_read(tmp_path: Path, job: Jobs) -> None:
    whole, *shards, merging = (Recorder() for _ in range(4))
    prepare(job(), tmp_path / "whole", progress=whole)
    for index, shard in enumerate(shards):
        prepare_shard(job(), tmp_path, index, 2, shard)
    merge_shards(job(), tmp_path, merging)
    total = 2 * HELD_OUT + SIZE
    trained = [2 * HELD_OUT + min(done, SIZE) for done in range(0, SIZE + BLOCK, BLOCK)]
    held_out = [(done, None) for done in (0, HELD_OUT, HELD_OUT, 2 * HELD_OUT)]
    for recorder in (whole, *shards):
        assert recorder.reports["tokenising"] == [*held_out, *((done, total) for done in trained)]
    joined = [min(done, SIZE) for done in range(BLOCK, SIZE + BLOCK, BLOCK)] + [
        SIZE + HELD_OUT,
        total,
    ]
    for recorder in (whole, merging):
        assert recorder.reports["joining"] == [(done, total) for done in joined]


def test_each_pass_of_the_draft_reports_its_records(tmp_path: Path, job: Jobs) -> None:
    names = ("drop_duplicates", "length", "drop_leaking_dialogues", "entropy")
    recorder = Recorder()
    prepare(job(filters=tuple({"name": name} for name in names)), tmp_path, progress=recorder)
    read = [*range(0, SIZE, BLOCK), SIZE]
    first, again = (
        [(done, SIZE if later or done == SIZE else None) for done in read]
        for later in (False, True)
    )
    held_out = [(0, None), (HELD_OUT, HELD_OUT)]
    assert list(recorder.reports.items())[:6] == [
        ("filter drop_duplicates", first),
        ("filter drop_leaking_dialogues, validation", held_out),
        ("filter drop_leaking_dialogues, test", held_out),
        ("filter entropy", again),
        ("learning the tokenizer", again),
        ("training the tokenizer", [(0, None)]),
    ]


def test_a_tokenizer_file_is_not_trained(tmp_path: Path, job: Jobs) -> None:
    recorder = Recorder()
    prepared = prepare(job(), tmp_path)
    file = {"name": "file", "path": str(prepared / "tokenizer.json")}
    prepare(replace(job(), tokenizer=file), tmp_path, progress=recorder)
    assert list(recorder.reports) == ["learning the tokenizer", "tokenising", "joining"]


@pytest.mark.parametrize(("parts", "train"), [(1, 250), (2, 1000)])
def test_progress_of_shards_is_their_mean_or_sum(tmp_path: Path, parts: int, train: int) -> None:
    def write(folder: str, **records: int) -> None:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "records.json").write_text(json.dumps(records) if records else "")

    recorder = Recorder()
    write("draft", train=1000)
    division = {split: [Part(0, 0, 9, 0)] * (parts if split == "train" else 0) for split in SPLITS}
    write_division(tmp_path / "draft", Division(division))
    for folder, records in {
        ".0-of-4.a": {"validation": 90, "test": 10},
        ".0-of-4.b": {"validation": 50},  # restarted after a worker was killed
        ".1-of-4.c": {},
        "0-of-3": {"validation": 90, "test": 70, "train": 900},
    }.items():
        write(folder, **records)
    report_progress(tmp_path, 4, recorder)
    write("3-of-4", validation=90, test=70, train=1000)
    report_progress(tmp_path, 4, recorder)
    assert recorder.reports == {"tokenising": [(24, None), (65 + train, 1160)]}
