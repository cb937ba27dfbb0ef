"""Stop the process on a signal, with one line and an exit code."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

log = logging.getLogger("dialog")

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
"""SLURM sends SIGTERM before it takes a node away; its ``--signal`` is usually SIGUSR1.

A lost terminal: SIGHUP.
"""


class Stopped(BaseException):
    """Stopped by a signal; a BaseException, so that no handler of errors catches it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number

    @property
    def code(self) -> int:
        """Exit code: 130 after SIGINT, 129 after SIGHUP, 143 after the others."""
        return 128 + (
            self.number if self.number in (signal.SIGINT, signal.SIGHUP) else signal.SIGTERM
        )


@contextmanager
def stopping(advice: str = "") -> Iterator[None]:
    """Turn signals into an exit with advice; the outermost one is in the command line, so every
    verb exits like this.

    A training within handles signals itself, between two steps. Forked processes keep the default
    action.

    Raises:
        KeyboardInterrupt: after SIGINT, with the advice.
        SystemExit: after SIGTERM and SIGUSR1 with 143, after SIGHUP with 129.
    """
    process = os.getpid()

    def raise_stopped(number: int, frame: FrameType | None) -> None:
        if os.getpid() == process:
            raise Stopped(number)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    numbers = [number for number in STOP_SIGNALS if number != signal.SIGINT]
    in_main = threading.current_thread() is threading.main_thread()
    kept = [number for number in numbers if in_main and signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, raise_stopped) for number in kept}
    then = f"; {advice}" if advice else ""
    try:
        yield
    except Stopped as stopped:
        if stopped.number == signal.SIGINT:  # of a training without advice of its own
            raise KeyboardInterrupt(f"interrupted{then}") from None
        log.info("stopped by %s%s", stopped, then)
        raise SystemExit(stopped.code) from None
    except KeyboardInterrupt as error:  # has a message if it came from a training
        raise KeyboardInterrupt(str(error) or f"interrupted{then}") from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
