"""Signals that end a training: each process takes note, all stop at the same step."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType

import torch
import torch.distributed as dist
from lightning.pytorch import Trainer

from dialog.training.lightning_internals import SignalConnector

ASKED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
"""SLURM sends SIGTERM before it takes a node away, and what ``--signal`` says before the time is up: SIGUSR1."""


class Stopped(BaseException):
    """A signal has ended the training; no error, so that nothing on the way takes it for one."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number

    @property
    def code(self) -> int:
        """What a process exits with: 130 after SIGINT, 143 after SIGTERM and what means the same."""
        return 128 + (signal.SIGINT if self.number == signal.SIGINT else signal.SIGTERM)


class Signals(SignalConnector):
    """Takes the place of Lightning's handlers for the time of a fit; a handler only sets a flag.

    Lightning's own (2.6) call collectives inside the handler, which hangs where a signal reaches another process than
    the first (its issue 20806), and have each training step wait for a broadcast (21487).

    A second signal ends the process at once, if it comes a second or more after the first: starters pass on what their
    processes have been sent already.
    """

    def __init__(self, trainer: Trainer, *, seconds: float = 1.0) -> None:
        super().__init__(trainer)
        self.came = 0
        self.when = 0.0
        self.seconds = seconds
        self.ticks = self.left = 1
        self.since = time.monotonic()

    def register_signal_handlers(self) -> None:
        """Listen, where this thread may."""
        if threading.current_thread() is threading.main_thread():
            self.listen(ASKED, self._take)

    def asked(self) -> int:
        """The number of the signal that any process has been sent, or 0; to be called by all of them alike.

        Several processes ask each other about once in ``seconds``: after how many calls, they agree on.
        """
        if self.trainer.world_size == 1 or not dist.is_initialized():
            return self.came
        self.left -= 1
        if self.left:
            return 0
        now = time.monotonic()
        known = torch.tensor([self.came, (now - self.since) / self.ticks], device=self.trainer.strategy.root_device)
        dist.all_reduce(known, op=dist.ReduceOp.MAX)
        number, pace = known.tolist()
        self.ticks = self.left = round(min(max(self.seconds / max(pace, 1e-6), 1), 1000))
        self.since = now
        return int(number)

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.came and time.monotonic() - self.when >= 1:
            os._exit(Stopped(number).code)
        if not self.came:
            self.came, self.when = number, time.monotonic()
