"""Progress of long work on standard error: a bar in a terminal, periodic lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Never, Self

from tqdm import tqdm

REFRESH = 0.2
"""Seconds between two updates of a bar."""
COLUMNS = 20
"""Columns of a bar; the rest of the line is text, of which whole figures are left out at the edge
of the terminal.
"""


class ProgressBars:
    """Progress of several tasks, one after another.

    Args:
        quiet: Show nothing.
        every_seconds: Interval between lines if standard error is no terminal; each task also
            writes a line at its start.
    """

    def __init__(self, *, quiet: bool = False, every_seconds: float = 30.0) -> None:
        self.quiet = quiet
        self.is_terminal = sys.stderr.isatty()
        self.interval = min(REFRESH, every_seconds) if self.is_terminal else every_seconds
        self.bar: tqdm[Never] | None = None
        self.task = ""
        self.started = 0.0
        self.shown = 0.0
        self.first = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def show(
        self,
        task: str,
        done: int,
        total: int | None,
        describe: Callable[[], str] = lambda: "",
        *,
        fraction: float | None = None,
    ) -> None:
        """Show that `done` units of a task, of `total` if known, are finished; a new name starts a
        new task.

        Args:
            task: Name of the task.
            done: Finished units.
            total: All units; the time left is shown if it is known.
            describe: Returns further text; called only if the line is drawn.
            fraction: Finished part of the task, if it is not `done / total`; no time left is shown.
        """
        if self.quiet:
            return
        if task != self.task:
            self._start(task, done)
        now = time.monotonic()
        if now - self.shown < self.interval and done != total:
            return
        self.shown = now
        left = ""
        if total and fraction is None and self.first < done < total:
            seconds = (total - done) * (now - self.started) / (done - self.first)
            left = f"{tqdm.format_interval(seconds)} left"
        head = f"{task}: {done:,}" + (f" of {total:,}" if total else "")
        text = ", ".join(filter(None, [left, describe()]))
        if self.bar is None:
            if done or text:
                sys.stderr.write(f"{head}, {text}\n" if text else f"{head}\n")
            return
        between = COLUMNS + len(" || ") if total else len(" ")
        text = _fitting(text, (self.bar.format_dict["ncols"] or 0) - len(head) - between)
        # tqdm fills in its format, so braces of the text are doubled
        text = text.replace("{", "{{").replace("}", "}}")
        self.bar.bar_format = f"{head} |{{bar:{COLUMNS}}}| {text}" if total else f"{head} {text}"
        self.bar.total = total
        self.bar.n = done if fraction is None or total is None else fraction * total
        self.bar.refresh()

    def close(self) -> None:
        """End the current task; its bar stays on the screen."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None
        self.task = ""

    def _start(self, task: str, done: int) -> None:
        self.close()
        self.task = task
        self.first = done
        self.started = time.monotonic()
        if self.is_terminal:
            self.shown = 0.0  # a bar is drawn at once
            self.bar = tqdm(bar_format=f"{task}", dynamic_ncols=True)
        else:
            self.shown = self.started
            sys.stderr.write(f"{task}\n")


def _fitting(text: str, columns: int) -> str:
    """Return as many of the figures of a text, separated by ", ", as fit; all if the terminal's
    width is unknown.
    """
    figures = text.split(", ")
    while len(figures) > 1 and columns > 0 and len(", ".join(figures)) > columns:
        figures.pop()
    return ", ".join(figures)
