"""Run the heartbeat during training, and report the failures it detects."""

from __future__ import annotations

import os
import secrets
import socket

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback

from dialog.errors import LostProcessError
from dialog.training.distributed.heartbeat import Address, Heartbeat
from dialog.training.distributed.local_launcher import end_local_processes


class HeartbeatCallback(Callback):
    """Ends training in all processes, within a minute, when one of them failed, was killed or was
    stopped.

    A process counts as stopped after ``DIALOG_SILENCE`` seconds (default 30) without a beat. Does
    nothing with one process.
    """

    heartbeat: Heartbeat | None = None

    def setup(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        """Start the thread, with the first process's port and secret."""
        if trainer.world_size == 1 or self.heartbeat is not None:
            return
        server = socket.create_server(("", 0)) if trainer.is_global_zero else None
        invitation = (
            (server.getsockname()[1], secrets.token_hex(16)) if server is not None else (0, "")
        )
        port, secret = trainer.strategy.broadcast(invitation)
        self.heartbeat = Heartbeat(
            Address(trainer.global_rank, os.getpid(), socket.gethostname()),
            trainer.world_size,
            secret=secret,
            server=server,
            server_address=(os.environ["MASTER_ADDR"], port),
            silence=float(os.environ.get("DIALOG_SILENCE", "30")),
            before_exit=lambda: end_local_processes(trainer, 0),
        )
        self.heartbeat.start()

    def teardown(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        """Leave without a failure."""
        if self.heartbeat is not None:
            self.heartbeat.leave()
            self.heartbeat = None

    def on_exception(
        self, trainer: Trainer, module: LightningModule, exception: BaseException
    ) -> None:
        """Send the error to the other processes, and wait for those that were started here.

        Raises:
            LostProcessError: the exception only followed from another process's failure.
        """
        try:
            self._report(exception)
        finally:
            end_local_processes(trainer)

    def _report(self, exception: BaseException) -> None:
        heartbeat = self.heartbeat
        self.heartbeat = None
        if heartbeat is None:
            return
        if not isinstance(exception, Exception):  # a signal, which all processes handle
            heartbeat.leave()
        elif isinstance(exception, RuntimeError) and heartbeat.failed.wait(
            3
        ):  # usually a broken collective
            raise LostProcessError(heartbeat.cause) from exception
        else:
            heartbeat.fail(f"{type(exception).__name__}: {exception}")
