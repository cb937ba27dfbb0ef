"""How far long work has come, on standard error: a bar on a terminal, elsewhere a line for each thing that is begun."""

from __future__ import annotations

import sys
from typing import Never, Self

from tqdm import tqdm


class Bars:
    """A bar for each thing that is done, one after the other; its time left where the end is known.

    Args:
        quiet: Whether nothing is shown.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
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
            if not sys.stderr.isatty():
                sys.stderr.write(f"{what}\n")
            self.bar = tqdm(desc=what, total=total, disable=None)
        if self.bar is not None:
            self.bar.update(done - self.bar.n)

    def _close(self) -> None:
        if self.bar is not None:
            self.bar.close()
