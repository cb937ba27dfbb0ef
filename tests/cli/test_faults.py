"""Two real processes that train, one of which is killed, stopped or fails: all end soon, and say what has happened."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SMALL = [
    "data.corpus.size=60",
    "data.tokenizer.vocabulary=400",
    "model.embedding_size=16",
    "trainer.accelerator=cpu",
    "trainer.devices=2",
    "trainer.max_steps=-1",
    "trainer.max_epochs=100000",
    "trainer.log_every_n_steps=1",
    "trainer.enable_progress_bar=false",
]
FAULTY = """
import torch.distributed as dist
from dialog.training.losses import CrossEntropy

class Loss(CrossEntropy):
    steps = 0

    def __call__(self, logits, targets):
        self.steps += 1
        if self.steps == 4 and dist.is_initialized() and dist.get_rank() == 1:
            raise ValueError("no such luck")
        return super().__call__(logits, targets)
"""


class Training:
    """The first process, and the one that it has started."""

    def __init__(self, folder: Path, *overrides: str) -> None:
        (folder / "faulty.py").write_text(FAULTY, encoding="utf-8")
        self.record = folder / "run" / "metrics.jsonl"
        command = ["-m", "dialog", "train", "quickstart/transformer", *SMALL, *overrides, "--output", folder / "run"]
        path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
        variables = {"OMP_NUM_THREADS": "1", "DIALOG_SILENCE": "6", "PYTHONPATH": path}
        self.errors = (folder / "errors").open("w+", encoding="utf-8")
        self.first = subprocess.Popen([sys.executable, *command], env={**os.environ, **variables}, stderr=self.errors)
        self.pids = [self.first.pid]

    def starts(self) -> None:
        """Wait for some steps; the second process is known then."""
        until = time.monotonic() + 120
        while not self.record.exists() or self.record.read_text(encoding="utf-8").count("\n") < 3:
            assert self.first.poll() is None, self.said()
            assert time.monotonic() < until, self.said()
            time.sleep(0.1)
        children = Path(f"/proc/{self.first.pid}/task/{self.first.pid}/children").read_text(encoding="utf-8")
        self.pids += [int(each) for each in children.split()]
        assert len(self.pids) == 2

    def ends(self) -> float:
        """Seconds until no process is left."""
        began = time.monotonic()
        self.first.wait(60)
        while any(Path(f"/proc/{pid}").exists() for pid in self.pids):
            assert time.monotonic() < began + 60
            time.sleep(0.1)
        return time.monotonic() - began

    def said(self) -> str:
        return Path(self.errors.name).read_text(encoding="utf-8")

    def clean(self) -> None:
        self.errors.close()
        for pid in self.pids:
            if Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGKILL)
        self.first.wait()


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Callable[..., Training]]:
    made: list[Training] = []

    def start(*overrides: str) -> Training:
        made.append(Training(tmp_path, *overrides))
        return made[-1]

    yield start
    for each in made:
        each.clean()


CASES = {
    "killed": (signal.SIGKILL, 1, 1, "is gone: killed"),
    "stopped": (signal.SIGSTOP, 0, 1, "has said nothing for 6 s: stopped"),
}
"""A signal, which process it is sent to, what the first exits with, and what is said."""


@pytest.mark.parametrize("case", CASES)
def test_all_end_and_say_what_has_happened(training: Callable[..., Training], case: str) -> None:
    number, place, code, message = CASES[case]
    run = training()
    run.starts()
    os.kill(run.pids[place], number)
    seconds = run.ends()
    print(f"{case}: all gone after {seconds:.1f} s\n{run.said()}")
    assert run.first.returncode == code
    said = [line for line in run.said().splitlines() if f"process {place} (pid {run.pids[place]} " in line]
    assert said
    assert all(re.match(rf"dialog: process {place} \(pid \d+ on \S+\) {message}", line) for line in said)
