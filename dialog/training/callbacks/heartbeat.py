"""Watch over the other processes while training."""

from __future__ import annotations

import os
import secrets
import socket

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback

from dialog.errors import RunError
from dialog.training.distributed.heartbeat import Place, Watch
from dialog.training.distributed.local_launcher import end_started


class Watching(Callback):
    """Ends a training, within a minute and in all processes, of which one has failed, was killed or stopped.

    After ``DIALOG_SILENCE`` seconds (30) without a word a process counts as stopped. With one process there is nothing
    to watch.
    """

    watch: Watch | None = None

    def setup(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        """Find the others."""
        if trainer.world_size == 1 or self.watch is not None:
            return
        server = socket.create_server(("", 0)) if trainer.is_global_zero else None
        known = (server.getsockname()[1], secrets.token_hex(16)) if server is not None else (0, "")
        port, secret = trainer.strategy.broadcast(known)
        self.watch = Watch(
            Place(trainer.global_rank, os.getpid(), socket.gethostname()),
            trainer.world_size,
            secret=secret,
            server=server,
            address=(os.environ["MASTER_ADDR"], port),
            silence=float(os.environ.get("DIALOG_SILENCE", "30")),
            last=lambda: end_started(trainer, 0),
        )
        self.watch.start()

    def teardown(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        """All is well."""
        if self.watch is not None:
            self.watch.leave()
            self.watch = None

    def on_exception(self, trainer: Trainer, module: LightningModule, exception: BaseException) -> None:
        """Tell the others, or say what they have told; what was started here ends before.

        Raises:
            RunError: the exception only followed from what has befallen another process.
        """
        try:
            self._tell(exception)
        finally:
            end_started(trainer)

    def _tell(self, exception: BaseException) -> None:
        watch, self.watch = self.watch, None
        if watch is None:
            return
        if not isinstance(exception, Exception):  # a signal, of which all take note
            watch.leave()
        elif isinstance(exception, RuntimeError) and watch.ended.wait(3):  # a broken exchange, as a rule
            raise RunError(watch.cause) from exception
        else:
            watch.fail(f"{type(exception).__name__}: {exception}")
