"""Check that a killed and resumed run is bit-identical to an uninterrupted one, with real processes
and kills.
"""

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
from dialog.runs.folder import CHECKPOINTS, METRICS, WEIGHTS

CLOCK = ("time", "train/tokens_per_second")
"""Logged values that depend on the clock; they are not compared."""
SMALL = (
    "trainer.max_epochs=null", "trainer.max_steps=24", "trainer.max_time=null",
    "trainer.log_every_n_steps=1",
    "trainer.check_val_every_n_epoch=null", "trainer.val_check_interval=7",
    "trainer.limit_val_batches=2",
    "trainer.enable_progress_bar=false", "checkpoint.every_n_steps=3",
    "checkpoint.patience=null", "logger=none",
)  # fmt: skip
"""A short training with validations, and with checkpoints between which the kills fall."""


@dataclass(frozen=True)
class Comparison:
    """Bit-wise comparison of two runs: numbers compared, and numbers that differ."""

    values: int  # logged values
    other_values: int
    tensors: int  # weights of the newest checkpoint and best weights
    other_tensors: int

    @property
    def same(self) -> bool:
        """True if something was compared and nothing differs."""
        return (
            self.values > 0
            and self.tensors > 0
            and not self.other_values
            and not self.other_tensors
        )


def compare(one: Path, other: Path) -> Comparison:
    """Compare every logged value and every weight of two run folders."""
    from safetensors.torch import load_file

    from dialog.training.checkpoints.checkpoint_io import LAST, SafeCheckpointIO

    logged, again = (values(folder) for folder in (one, other))
    lost = abs(len(logged) - len(again))
    tensors = other_tensors = 0
    states = [
        SafeCheckpointIO().load_checkpoint(folder / CHECKPOINTS / LAST)["state_dict"]
        for folder in (one, other)
    ]
    best = [load_file(folder / WEIGHTS) for folder in (one, other)]
    for first, second in (states, best):
        names = first.keys() | second.keys()
        same = [name for name in first.keys() & second.keys() if first[name].equal(second[name])]
        tensors += len(names)
        other_tensors += len(names) - len(same)
    differ = sum(left != right for left, right in zip(logged, again, strict=False))
    return Comparison(max(len(logged), len(again)), differ + lost, tensors, other_tensors)


def values(folder: Path) -> list[tuple[int, str, str]]:
    """Return step, name and value (as `float.hex` writes it) of everything in metrics.jsonl."""
    rows = (folder / METRICS).read_text(encoding="utf-8").splitlines()
    found = []
    for row in map(json.loads, rows):
        for name, value in row.items():
            if name not in CLOCK:
                text = "null" if value is None else float(value).hex()
                found.append((row["step"], name, text))
    return found


def prove(
    recipe: str, overrides: Sequence[str], folder: Path, *, kills: int = 3
) -> tuple[list[int], Comparison]:
    """Train a short version of a recipe twice: uninterrupted, and killed at random steps and
    resumed.

    Returns:
        The last logged step before each kill, and the comparison of the two runs.

    Raises:
        UserError: the recipe cannot be trained.
    """
    small = [*compose(recipe, overrides).recipe.smoke, *overrides, *SMALL]
    compose(recipe, small)
    whole = folder / "whole"
    killed = folder / "killed"
    wait_for_end(start(folder, "train", recipe, *small, "--output", str(whole)), folder)
    running = start(folder, "train", recipe, *small, "--output", str(killed))
    steps: list[int] = []
    while len(steps) < kills and wait_for_lines(
        lines(killed) + random.randint(1, 5), killed, running
    ):
        os.killpg(running.pid, signal.SIGKILL)
        if running.wait() == -signal.SIGKILL:
            steps.append(values(killed)[-1][0])
            running = start(folder, "train", "--resume", str(killed), "--trust")
    wait_for_end(running, folder)
    return steps, compare(whole, killed)


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start this program in its own process group, with its output in the file ``log``."""
    with (folder / "log").open("wb") as log:
        command = [sys.executable, "-m", "dialog", *arguments]
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def wait_for_end(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until a training ends; a failed one raises UserError with its last line."""
    if process.wait():
        last = (folder / "log").read_text(encoding="utf-8").strip().rpartition("\n")[2]
        raise UserError(
            f"--prove-resume: training failed with exit code {process.returncode}: {last}"
        )


def wait_for_lines(count: int, folder: Path, process: subprocess.Popen[bytes]) -> bool:
    """Wait until metrics.jsonl has ``count`` lines; return False if the process ends before."""
    while lines(folder) < count:
        if process.poll() is not None:
            return False
        time.sleep(0.01)
    return process.poll() is None


def lines(folder: Path) -> int:
    """Return the number of lines of metrics.jsonl."""
    path = folder / METRICS
    return path.read_bytes().count(b"\n") if path.is_file() else 0
