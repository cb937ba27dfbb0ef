"""Whether a training goes on exactly where it was killed: shown with real processes and real kills."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dialog.config.compose import compose
from dialog.errors import UserError

CLOCK = ("time", "train/tokens_per_second")
"""What of the record a clock says."""
SMALL = (
    "trainer.max_epochs=null", "trainer.max_steps=24", "trainer.max_time=null", "trainer.log_every_n_steps=1",
    "trainer.check_val_every_n_epoch=null", "trainer.val_check_interval=7", "trainer.limit_val_batches=2",
    "trainer.enable_progress_bar=false", "checkpoint.every_n_steps=3", "checkpoint.patience=null", "logger=none",
)  # fmt: skip
"""A training that is over soon, with validations, and with saves that the kills fall between."""


@dataclass(frozen=True)
class Comparison:
    """How far two runs are the same, to the last bit."""

    values: int  # of the record
    other_values: int  # of them
    tensors: int  # of the newest state's weights and of the best weights
    other_tensors: int  # of them

    @property
    def same(self) -> bool:
        """Whether they are the same run."""
        return self.values > 0 and self.tensors > 0 and not self.other_values and not self.other_tensors


def compare(one: Path, other: Path) -> Comparison:
    """Two run folders: every number of the record, and every weight."""
    from safetensors.torch import load_file

    from dialog.training.checkpoints.checkpoint_io import LAST, SafeCheckpointIO

    logged, again = (values(folder) for folder in (one, other))
    lost = abs(len(logged) - len(again))
    tensors = other_tensors = 0
    states = [
        SafeCheckpointIO().load_checkpoint(folder / "checkpoints" / LAST)["state_dict"] for folder in (one, other)
    ]
    best = [load_file(folder / "model.safetensors") for folder in (one, other)]
    for first, second in (states, best):
        tensors += len(first)
        other_tensors += sum(name not in second or not value.equal(second[name]) for name, value in first.items())
    differ = sum(left != right for left, right in zip(logged, again, strict=False))
    return Comparison(max(len(logged), len(again)), differ + lost, tensors, other_tensors)


def values(folder: Path) -> list[tuple[int, str, str]]:
    """Step, name and number, as `float.hex` writes it, of all that is in a record."""
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        (row["step"], name, "null" if value is None else float(value).hex())
        for row in map(json.loads, lines)
        for name, value in row.items()
        if name not in CLOCK
    ]


def prove(recipe: str, overrides: Sequence[str], folder: Path, *, kills: int = 3) -> tuple[list[int], Comparison]:
    """Train a recipe in small, once left alone and once killed at random steps and gone on with.

    Returns:
        The last logged step at each kill, and how far the two runs are the same.

    Raises:
        UserError: the recipe cannot be trained.
    """
    small = [*compose(recipe, overrides).recipe.smoke, *overrides, *SMALL]
    compose(recipe, small)
    whole, killed = folder / "whole", folder / "killed"
    ended(start(folder, "train", recipe, *small, "--output", str(whole)), folder)
    running = start(folder, "train", recipe, *small, "--output", str(killed))
    steps: list[int] = []
    while len(steps) < kills and comes_to(lines(killed) + random.randint(1, 5), killed, running):
        os.killpg(running.pid, signal.SIGKILL)
        if running.wait() == -signal.SIGKILL:
            steps.append(values(killed)[-1][0])
            running = start(folder, "train", "--resume", str(killed))
    ended(running, folder)
    return steps, compare(whole, killed)


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """This program in a process group of its own; what it says goes into a file."""
    with (folder / "log").open("wb") as log:
        command = [sys.executable, "-m", "dialog", *arguments]
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def ended(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait for the end of a training."""
    if process.wait():
        said = (folder / "log").read_text(encoding="utf-8").strip().rpartition("\n")[2]
        raise UserError(f"--prove-resume: a training has ended with {process.returncode}: {said}")


def comes_to(count: int, folder: Path, process: subprocess.Popen[bytes]) -> bool:
    """Wait until a record has so many lines; whether it comes to that before the process ends."""
    while lines(folder) < count:
        if process.poll() is not None:
            return False
        time.sleep(0.01)
    return process.poll() is None


def lines(folder: Path) -> int:
    """How many lines a record has."""
    path = folder / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.is_file() else 0
