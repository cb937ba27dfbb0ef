"""How far long work has come, on standard error: a bar on a terminal, elsewhere a plain line now and then."""

from __future__ import annotations

import sys
import time
from typing import Never, Self

from tqdm import tqdm


class Bars:
    """A bar for each thing that is done, one after the other; its time left where the end is known.

    Args:
        quiet: Whether nothing is shown.
        every_seconds: How often there is a line where there is no terminal, besides one when a thing is begun.
    """

    def __init__(self, *, quiet: bool = False, every_seconds: float = 30.0) -> None:
        self.quiet = quiet
        self.every = every_seconds
        self.bar: tqdm[Never] | None = None
        self.what = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def show(self, what: str, done: int, total: int | None) -> None:
        """Say that so much of something is done, of so much in all if that is known."""
        if self.quiet:
            return
        if what != self.what:
            self._close()
            self.what = what
            self.began = self.printed = time.monotonic()
            plain = not sys.stderr.isatty()
            if plain:
                sys.stderr.write(f"{what}\n")
            self.bar = tqdm(desc=what, disable=plain, miniters=1)
        if self.bar is not None:
            self.bar.total = total
            self.bar.update(done - self.bar.n)
            if self.bar.disable:
                self._say(done, total)

    def _say(self, done: int, total: int | None) -> None:
        """A plain line for a log file."""
        now = time.monotonic()
        if done and now - self.printed >= self.every:
            self.printed = now
            left = (total - done) * (now - self.began) / done if total else 0.0
            of = f" of {total:,}, {tqdm.format_interval(left)} left" if total else ""
            sys.stderr.write(f"{self.what}: {done:,}{of}\n")

    def _close(self) -> None:
        if self.bar is not None:
            self.bar.close()
