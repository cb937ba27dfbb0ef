"""Progress of a comparison on standard error: finished runs, and the remaining time of all runs."""

from __future__ import annotations

import json
import logging
import os
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from tqdm.contrib.logging import logging_redirect_tqdm

from dialog.comparison.grid.folder import SPLIT, Cell, is_trained
from dialog.comparison.grid.work import Work
from dialog.comparison.systems.answers import answered
from dialog.escaping import one_line
from dialog.json_files import read_json_lines
from dialog.report.formats.numbers import duration
from dialog.report.progress import ProgressBars
from dialog.runs.folder import METRICS, WEIGHTS, read_summary

ACTIVE = 60.0
"""Seconds after its last logged step during which a run counts as being trained."""
EVERY = 60.0
"""Seconds between two lines without a terminal."""
LINES = 10
TAIL = 4096
"""Last lines of metrics.jsonl that are read, and a first guess of their bytes: after a validation a
line has several statistics of each attention head.
"""


class RunState(NamedTuple):
    """Progress of one run."""

    contender: str
    fraction: float  # of its training, 1 when it has ended
    seconds: float | None  # of training so far
    active: bool
    text: str = ""
    left: float | None = None  # at most, at the speed of its steps, without preparation


class Display:
    """A bar in a terminal; elsewhere a line when a run ends, and every `EVERY` seconds."""

    def __init__(self, work: Work, *, jobs: int = 1) -> None:
        self.work = work
        self.jobs = jobs
        self.bars = ProgressBars(every_seconds=0.0)
        self.shown: tuple[int, float] = (-1, 0.0)
        self.stop = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Show the progress while the body runs."""
        thread = threading.Thread(target=self._repeat, name="progress", daemon=True)
        thread.start()
        with self.bars, logging_redirect_tqdm(loggers=[logging.getLogger()]):
            try:
                yield
            finally:
                self.stop.set()
                thread.join()

    def _repeat(self) -> None:
        while True:
            self.show()
            if self.stop.wait(1.0):
                self.show()
                return

    def show(self) -> None:
        """Update the bar, or print a line."""
        states = [state_of(cell) for cell in self.work.cells]
        done = sum(state.fraction >= 1 for state in states)
        if not self.bars.is_terminal:
            if done == self.shown[0] and time.monotonic() - self.shown[1] <= EVERY:
                return
            self.shown = (done, time.monotonic())
        seconds = remaining_seconds(states, jobs=self.jobs)
        left = f"at most {duration(seconds)} left" if seconds else ""
        texts = [state.text for state in states if state.active and state.text]
        text = ", ".join(filter(None, [left, *texts]))
        fraction = sum(state.fraction for state in states) / len(states)
        self.bars.show("runs", done, len(states), lambda: text, fraction=min(fraction, 1.0))


def state_of(cell: Cell) -> RunState:
    """Read the progress of a run from its folder."""
    name = cell.contender.name
    title = one_line(cell.name.rpartition("/")[2])
    evaluated = any((cell.folder / "evaluation").glob(f"{SPLIT}*/metrics.json"))
    if cell.contender.system and not evaluated:
        done, number = answered(cell.folder)
        text = f"{title}: {done:,} of {number:,} responses" if number else ""
        return RunState(name, 0.99 * done / max(number, 1), None, bool(number), text)
    if cell.contender.kind != "recipe":
        return RunState(name, float(evaluated), None, False)
    if is_trained(cell.folder):
        summary = read_summary(cell.folder)
        ended = evaluated or bool(cell.trial) or not (cell.folder / WEIGHTS).is_file()
        text = "" if ended else f"{title}: evaluating"
        return RunState(
            name, 1.0 if ended else 0.99, summary.seconds if summary else None, not ended, text
        )
    line = last_line(cell.folder / METRICS)
    if line is None:
        return RunState(
            name, 0.0, None, cell.folder.is_dir(), f"{title} starts" if cell.folder.is_dir() else ""
        )
    trainer = cell.contender.composed.recipe.trainer
    steps = trainer.max_steps
    epochs = trainer.max_epochs
    per_epoch = steps_per_epoch(cell.folder / METRICS, line["epoch"])
    by_epochs = epochs * per_epoch if epochs and per_epoch else None
    ends = [end for end in (steps, by_epochs) if end is not None and end > 0]
    of = f" of {steps:,}" if steps > 0 else ""
    active = time.time() - (cell.folder / METRICS).stat().st_mtime < ACTIVE
    text = f"{title}: step {line['step']:,}{of}"
    if not ends:
        return RunState(name, 0.0, line["time"], active, text)
    fraction = line["step"] / min(ends)
    speed = seconds_per_step(cell.folder / METRICS)
    left = max(min(ends) - line["step"], 0) * speed if speed else None
    return RunState(name, min(fraction, 0.999), line["time"], active, text, left)


@lru_cache
def steps_per_epoch(path: Path, epoch: int) -> float | None:
    """Return the mean number of steps of the epochs before this one; None in the first epoch."""
    starts = (
        row["step"] - 1 for row in read_json_lines(path, "step", "epoch") if row["epoch"] == epoch
    )
    return next(starts) / epoch if epoch else None


def seconds_per_step(path: Path) -> float | None:
    """Return the median time of a step over the last lines: preparation after a start or a resume
    does not count.
    """
    rows = last_lines(path)
    pairs = [(new["time"] - old["time"], new["step"] - old["step"]) for old, new in pairwise(rows)]
    return (
        statistics.median(seconds / steps for seconds, steps in pairs if steps > 0)
        if pairs
        else None
    )


def last_line(path: Path) -> dict[str, Any] | None:
    """Return the last complete line of metrics.jsonl, or None."""
    return next(reversed(last_lines(path)), None)


def last_lines(path: Path) -> list[dict[str, Any]]:
    """Return the last complete lines of metrics.jsonl, one for each step; none if it is missing or
    damaged.
    """
    lines: list[bytes] = []
    try:
        with path.open("rb") as file:
            size = start = os.fstat(file.fileno()).st_size
            length = TAIL
            while start and len(lines) < LINES:
                start = max(0, size - length)
                file.seek(start)
                lines = file.read(size - start).split(b"\n")[bool(start) : -1]
                length *= 2
        rows = [json.loads(line) for line in lines]
    except (OSError, ValueError):
        return []
    complete = (
        row for row in rows if isinstance(row, dict) and {"step", "epoch", "time"} <= row.keys()
    )
    return list({row["step"]: row for row in complete}.values())


def remaining_seconds(states: Sequence[RunState], *, jobs: int = 1) -> float | None:
    """Return the remaining time of all runs, or None if no run has been trained long enough to
    tell.

    A run takes as long as the longest of its contender's runs, each extrapolated by the speed of
    its steps; of a contender without runs, as the longest of all. The work is divided by the number
    of runs that are trained at a time. Runs may stop early, and others may have had faster
    hardware, so this is an upper bound.
    """
    longest: dict[str, float] = {}
    for state in states:
        seconds = (
            state.seconds
            if state.fraction >= 1
            else state.left and state.left / (1 - state.fraction)
        )
        if seconds and state.fraction > 0:
            longest[state.contender] = max(seconds, longest.get(state.contender, 0.0))
    if not longest:
        return None
    default = max(longest.values())
    work = sum((1 - state.fraction) * longest.get(state.contender, default) for state in states)
    return work / max(jobs, sum(state.active for state in states), 1)
