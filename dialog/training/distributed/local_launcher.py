"""Start the other processes on this machine, and end them: Lightning's launcher with an orderly
end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from lightning.pytorch import Trainer

from dialog.training.distributed.heartbeat import GRACE
from dialog.training.lightning_internals import ScriptLauncher

PARENT = "DIALOG_PARENT"
ORDERLY_EXITS = (0, 128 + signal.SIGINT, 128 + signal.SIGTERM)


class LocalLauncher(ScriptLauncher):
    """Launcher that reports why processes end.

    When a process fails, Lightning (2.6) kills all of them, the first included, within five
    seconds: no message, exit code 137. When the first process is killed, Lightning's others remain
    until they wait for it.
    """

    def launch(
        self,
        function: Callable[..., Any],
        *args: Any,
        trainer: Trainer | None = None,
        **kwargs: Any,
    ) -> Any:
        """Start the other processes, watch for their end, and call the function."""
        self.cluster_environment.validate_settings(
            num_devices=self.num_processes, num_nodes=self.num_nodes
        )
        if not self.cluster_environment.creates_processes_externally:
            os.environ[PARENT] = str(os.getpid())
            self.start_processes()
            threading.Thread(target=self._watch_children, daemon=True).start()
        elif PARENT in os.environ:
            threading.Thread(
                target=self._watch_parent, args=(int(os.environ[PARENT]),), daemon=True
            ).start()
        self.limit_threads()
        return function(*args, **kwargs)

    def end(self, seconds: float) -> None:
        """Wait for the processes that were started here; kill those that remain after this many
        seconds.
        """
        until = time.monotonic() + seconds
        for process in self.procs:
            try:
                process.wait(max(until - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _watch_children(self) -> None:
        """Exit after a failed child that the heartbeat has not noticed, as before all ranks have
        connected.
        """
        while True:
            time.sleep(0.5)
            for number, process in enumerate(self.procs, 1):
                if process.poll() not in (None, *ORDERLY_EXITS):
                    time.sleep(2 * GRACE)
                    self.end(0)
                    exit_now(
                        f"process {number} (pid {process.pid}) ended with exit code"
                        f" {process.returncode}"
                    )

    def _watch_parent(self, parent: int) -> None:
        """Exit after the process that started this one."""
        while os.getppid() == parent:
            time.sleep(0.5)
        time.sleep(2 * GRACE)
        exit_now(f"the process that started this one (pid {parent}) is gone")


def end_local_processes(trainer: Trainer, seconds: float = 2 * GRACE) -> None:
    """End the processes that a trainer has started; kill those that remain after this many
    seconds.
    """
    launcher = trainer.strategy.launcher
    if isinstance(launcher, LocalLauncher):
        launcher.end(seconds)


def exit_now(message: str) -> None:
    """Exit with 1 while the main thread is blocked in a collective."""
    print(f"dialog: {message}", file=sys.stderr, flush=True)  # noqa: T201 - reason for the exit
    os._exit(1)
