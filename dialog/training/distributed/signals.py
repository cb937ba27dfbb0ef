"""Stop a training on a signal: a handler sets a flag, and all ranks stop at the same step."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType

import torch
import torch.distributed as dist
from lightning.pytorch import Trainer

from dialog.signals import STOP_SIGNALS, Stopped
from dialog.training.lightning_internals import SignalConnector

EXCHANGE_SECONDS = 1.0
"""Seconds between two exchanges among ranks."""

FORWARDED_SECONDS = 1.0
"""A launcher may forward a signal that the terminal has sent too; a later one is meant as such."""


class StopSignals(SignalConnector):
    """Handlers that replace Lightning's during a fit and only set a flag.

    Lightning (2.6) calls collectives inside its handler, which hangs when a signal reaches any
    process but the first (its issue 20806), and broadcasts at every training step (21487).

    A second signal exits at once, if it comes a second or more after the first: launchers forward
    signals that their processes have already received.

    Args:
        trainer: The trainer that fits.
    """

    def __init__(self, trainer: Trainer) -> None:
        super().__init__(trainer)
        self.received = 0
        self.received_at = 0.0
        self.terminals: list[int] = []
        self.interval = self.countdown = 1  # calls between two exchanges
        self.exchanged_at = time.monotonic()

    def register_signal_handlers(self) -> None:
        """Install the handlers, if this is the main thread; a SIGHUP that is ignored, as under
        nohup, stays ignored.
        """
        if threading.current_thread() is threading.main_thread():
            self.terminals = [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]
            ignored = (
                {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else set()
            )
            self.listen((number for number in STOP_SIGNALS if number not in ignored), self._handle)

    def received_by_any(self) -> int:
        """Return the number of a signal that any rank has received, or 0; all ranks must call this
        alike.

        Ranks exchange about once in `EXCHANGE_SECONDS` seconds; they agree on the number of calls
        in between.
        """
        if self.trainer.world_size == 1 or not dist.is_initialized():
            return self.received
        self.countdown -= 1
        if self.countdown:
            return 0
        now = time.monotonic()
        state = [self.received, (now - self.exchanged_at) / self.interval]
        shared = torch.tensor(state, device=self.trainer.strategy.root_device)
        dist.all_reduce(shared, op=dist.ReduceOp.MAX)
        number, seconds_per_call = shared.tolist()
        self.interval = self.countdown = round(
            min(max(EXCHANGE_SECONDS / max(seconds_per_call, 1e-6), 1), 1000)
        )
        self.exchanged_at = now
        return int(number)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received and time.monotonic() - self.received_at >= FORWARDED_SECONDS:
            os._exit(Stopped(number).code)
        for descriptor in self.terminals:
            # the terminal has closed: writing to it would end the process before it has saved
            if not os.isatty(descriptor):
                os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        if not self.received:
            # the time first: a second signal may interrupt this handler between the two
            self.received_at = time.monotonic()
            self.received = number
