"""Two real processes that Lightning has started; one is killed or stopped, both end soon and print
the cause.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import children

pytestmark = pytest.mark.endurance

SETTINGS = [
    "data.corpus.size=60",
    "data.tokenizer.vocabulary=400",
    "model.embedding_size=16",
    "trainer.accelerator=cpu",
    "trainer.devices=2",
    "trainer.max_steps=-1",
    "trainer.max_epochs=100000",
    "trainer.log_every_n_steps=1",
    "trainer.enable_progress_bar=false",
    "preflight=false",
    "logger=none",
]


class Training:
    """The first process, and the one that it starts."""

    def __init__(self, folder: Path) -> None:
        self.record = folder / "run" / "metrics.jsonl"
        command = [
            "-m",
            "dialog",
            "train",
            "quickstart/transformer",
            *SETTINGS,
            "--output",
            folder / "run",
        ]
        variables = {"OMP_NUM_THREADS": "1", "DIALOG_SILENCE": "4"}
        self.errors = folder / "errors"
        with self.errors.open("w", encoding="utf-8") as errors:
            self.first = subprocess.Popen(
                [sys.executable, *command], env={**os.environ, **variables}, stderr=errors
            )
        self.pids = [self.first.pid]

    def output(self) -> str:
        return self.errors.read_text(encoding="utf-8")

    def wait_for_steps(self) -> None:
        until = time.monotonic() + 120
        while not self.record.exists() or self.record.read_text(encoding="utf-8").count("\n") < 3:
            assert self.first.poll() is None, self.output()
            assert time.monotonic() < until, self.output()
            time.sleep(0.1)
        self.pids += children(self.first.pid)
        assert len(self.pids) == 2

    def wait(self) -> None:
        until = time.monotonic() + 60
        self.first.wait(60)
        while any(Path(f"/proc/{pid}").exists() for pid in self.pids):
            assert time.monotonic() < until
            time.sleep(0.1)

    def kill(self) -> None:
        for pid in self.pids:
            if Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGKILL)
        self.first.wait()


@pytest.fixture
def trainings(tmp_path: Path) -> Iterator[list[Training]]:
    """Two trainings that run at the same time."""
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
    started = [Training(folder) for folder in folders]
    yield started
    for training in started:
        training.kill()


def test_killed_or_stopped_process_ends_both(trainings: list[Training]) -> None:
    faults = [
        (signal.SIGKILL, 1, "is gone: killed"),
        (signal.SIGSTOP, 0, "has sent nothing for 4 s: stopped"),
    ]
    for training, (number, place, _) in zip(trainings, faults, strict=True):
        training.wait_for_steps()
        os.kill(training.pids[place], number)
    for training, (_, place, message) in zip(trainings, faults, strict=True):
        training.wait()
        assert training.first.returncode == 1, training.output()
        lines = [
            line
            for line in training.output().splitlines()
            if f"process {place} (pid {training.pids[place]} " in line
        ]
        assert lines, training.output()
        assert all(
            re.match(rf"dialog: process {place} \(pid \d+ on \S+\) {message}", line)
            for line in lines
        )
