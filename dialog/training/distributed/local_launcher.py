"""The processes that Lightning starts on this machine, and their end."""

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
from dialog.training.lightning_internals import ScriptLauncher, replace_launcher

PARENT = "DIALOG_PARENT"
ORDERLY = (0, 128 + signal.SIGINT, 128 + signal.SIGTERM)


class Launcher(ScriptLauncher):
    """Lightning's, with an end that is told.

    Lightning (2.6) kills all, itself first, within five seconds after a process has failed: no word, exit code 137. And
    when it is killed itself, its processes stay until they wait for it.
    """

    def launch(self, function: Callable[..., Any], *args: Any, trainer: Trainer | None = None, **kwargs: Any) -> Any:  # noqa: ANN401 - Lightning's
        """Start the others, watch for their end, and call the function."""
        self.cluster_environment.validate_settings(num_devices=self.num_processes, num_nodes=self.num_nodes)
        if not self.cluster_environment.creates_processes_externally:
            os.environ[PARENT] = str(os.getpid())
            self.start_processes()
            threading.Thread(target=self._outlive, daemon=True).start()
        elif PARENT in os.environ:
            threading.Thread(target=self._follow, args=(int(os.environ[PARENT]),), daemon=True).start()
        self.limit_threads()
        return function(*args, **kwargs)

    def end(self, seconds: float) -> None:
        """Let the processes that were started here end by themselves, and kill those that do not."""
        until = time.monotonic() + seconds
        for process in self.procs:
            try:
                process.wait(max(until - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _outlive(self) -> None:
        """End after a process that has failed, if it is not noticed otherwise: before they have found each other."""
        while True:
            time.sleep(0.5)
            for number, process in enumerate(self.procs, 1):
                if process.poll() not in (None, *ORDERLY):
                    time.sleep(2 * GRACE)
                    self.end(0)
                    leave(f"process {number} (pid {process.pid}) ended with exit code {process.returncode}")

    def _follow(self, parent: int) -> None:
        """End after the process that has started this one."""
        while os.getppid() == parent:
            time.sleep(0.5)
        time.sleep(2 * GRACE)
        leave(f"the process that started this one (pid {parent}) is gone")


def use_launcher(trainer: Trainer) -> None:
    """Take the place of Lightning's, where a trainer has one."""
    replace_launcher(trainer, Launcher)


def end_started(trainer: Trainer, seconds: float = 2 * GRACE) -> None:
    """End the processes that a trainer has started, by force after so many seconds."""
    launcher = trainer.strategy.launcher
    if isinstance(launcher, Launcher):
        launcher.end(seconds)


def leave(message: str) -> None:
    """End a process whose main thread waits for others."""
    print(f"dialog: {message}", file=sys.stderr, flush=True)  # noqa: T201 - the last word
    os._exit(1)
