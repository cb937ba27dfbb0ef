"""Progress of long work on standard error: a bar in a terminal, periodic lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Never, Self

from tqdm import tqdm


class ProgressBars:
    """Progress of several tasks, one after another; with the time left if the total is known.

    Args:
        quiet: Show nothing.
        every_seconds: Interval between lines if standard error is no terminal; each task also
            writes a line at its start.
    """

    def __init__(self, *, quiet: bool = False, every_seconds: float = 30.0) -> None:
        self.quiet = quiet
        self.interval = every_seconds
        self.bar: tqdm[Never] | None = None
        self.task = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def show(self, task: str, done: int, total: int | None) -> None:
        """Show that `done` units of a task, of `total` if known, are finished; a new name starts a
        new task.
        """
        if self.quiet:
            return
        if task != self.task:
            self._start(task)
        if self.bar is not None:
            self.bar.total = total
            self.bar.update(done - self.bar.n)
            if self.bar.disable:
                self._write_line(done, total)

    def _start(self, task: str) -> None:
        self._close()
        self.task = task
        self.started = self.written = time.monotonic()
        is_terminal = sys.stderr.isatty()
        if not is_terminal:
            sys.stderr.write(f"{task}\n")
        self.bar = tqdm(desc=task, disable=not is_terminal, miniters=1)

    def _write_line(self, done: int, total: int | None) -> None:
        now = time.monotonic()
        if done and now - self.written >= self.interval:
            self.written = now
            seconds_left = (total - done) * (now - self.started) / done if total else 0.0
            rest = f" of {total:,}, {tqdm.format_interval(seconds_left)} left" if total else ""
            sys.stderr.write(f"{self.task}: {done:,}{rest}\n")

    def _close(self) -> None:
        if self.bar is not None:
            self.bar.close()
