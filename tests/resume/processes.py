"""The command line in real processes, forked from a server that has imported everything, so that
they start at once.

``python processes.py`` is the server, which reads lines of JSON: it answers a line with
``arguments`` by the pid of a process that it has started, and ``{"wait": pid}`` by the exit code.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIMEOUT = 120


@dataclass
class Processes:
    """The ranks of one command."""

    server: Server
    pids: list[int]
    log: Path

    def send(self, number: int, rank: int | None = None) -> None:
        """Send a signal to one rank, or to all."""
        for pid in self.pids if rank is None else [self.pids[rank]]:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def wait(self) -> list[int]:
        """Return the exit codes; negative for a process that a signal has killed."""
        return [self.server.ask({"wait": pid}) for pid in self.pids]

    def until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition while all ranks run."""
        for _ in range(TIMEOUT * 200):
            if condition():
                return
            assert not any(map(has_ended, self.pids)), self.output
            time.sleep(0.005)
        raise AssertionError(f"not within {TIMEOUT} s: {self.output}")

    @property
    def output(self) -> str:
        """Standard output and error of all ranks."""
        return "".join(
            path.read_text(encoding="utf-8")
            for path in sorted(self.log.parent.glob(f"{self.log.name}.*"))
        )


def has_ended(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    return not status.exists() or "State:\tZ" in status.read_text(encoding="utf-8")


def children(pid: int) -> list[int]:
    """Return the running processes that the main thread of a process has started; none if it has
    ended.
    """
    try:
        return [
            int(text)
            for text in Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split()
        ]
    except FileNotFoundError:
        return []


class Server:
    """Starts processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def ask(self, question: Mapping[str, Any]) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(question), file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline())

    def start(
        self, *arguments: str, world: int = 1, environment: Mapping[str, str] | None = None
    ) -> Processes:
        """Run ``dialog ARGUMENTS`` in ``world`` processes, as torchrun starts them."""
        self.count += 1
        log = self.folder / f"log-{self.count}"
        port = str(free_port())
        pids = []
        for rank in range(world):
            variables = dict(environment or {})
            if world > 1:
                variables |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)}
                variables |= {
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": port,
                    "TORCHELASTIC_RUN_ID": "none",
                }
                variables |= {"GROUP_RANK": "0", "LOCAL_WORLD_SIZE": str(world)}
                variables |= {"TORCHELASTIC_USE_AGENT_STORE": "False"}
            where = {"folder": str(self.folder), "log": f"{log}.{rank}"}
            pids.append(self.ask({"arguments": arguments, "environment": variables, **where}))
        return Processes(self, pids, log)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """Run a server; its processes end with it."""
    server = Server(folder)
    with server.process:  # closes its input, upon which it ends
        yield server


def serve() -> None:
    """Answer until the input ends."""
    import dialog.runs.train  # imports everything that a training needs
    import dialog.training.trainer
    from dialog.cli import main

    del dialog
    running = []
    for line in sys.stdin:
        question = json.loads(line)
        if "wait" in question:
            answer = os.waitstatus_to_exitcode(os.waitpid(question["wait"], 0)[1])
            running.remove(question["wait"])
        else:
            answer = os.fork()
            if not answer:
                run(main, question)
            running.append(answer)
        print(answer, flush=True)
    for pid in running:
        os.kill(pid, signal.SIGKILL)


def run(main: Callable[[], object], question: Mapping[str, Any]) -> None:
    """Run the command in a forked process, and exit."""
    log = os.open(question["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    null = os.open(os.devnull, os.O_RDONLY)
    for stream, file in ((0, null), (1, log), (2, log)):
        os.dup2(file, stream)
    sys.argv = ["dialog", *question["arguments"]]
    os.environ.update(question["environment"])
    os.chdir(question["folder"])
    code = 1
    try:
        main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
