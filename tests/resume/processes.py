"""The real command line in real processes, which are forks of one that has imported everything: they start at once.

``python processes.py`` is that one: it reads a line of JSON for each process to start, and answers with its number; a
line ``{"wait": number}`` is answered with its exit code.
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

PATIENCE = 120


@dataclass
class Processes:
    """One training in as many processes as it has ranks."""

    server: Server
    numbers: list[int]
    log: Path

    def send(self, number: int, rank: int | None = None) -> None:
        """A signal to a rank, or to all."""
        for process in self.numbers if rank is None else [self.numbers[rank]]:
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def wait(self) -> list[int]:
        """The exit codes of all; negative where a signal has ended one."""
        return [self.server.ask({"wait": number}) for number in self.numbers]

    def until(self, true: Callable[[], object]) -> None:
        """Wait for something that the training is to do."""
        for _ in range(PATIENCE * 200):
            if true():
                return
            assert all(Path(f"/proc/{number}/status").exists() for number in self.numbers), self.said
            assert "State:\tZ" not in "".join(Path(f"/proc/{each}/status").read_text() for each in self.numbers), (
                self.said
            )
            time.sleep(0.005)
        raise AssertionError(f"it never was so: {self.said}")

    @property
    def said(self) -> str:
        """What all have written to the standard streams."""
        return "".join(path.read_text(encoding="utf-8") for path in sorted(self.log.parent.glob(f"{self.log.name}.*")))


class Server:
    """Starts processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        self.process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def ask(self, question: Mapping[str, Any]) -> int:
        """An answer is a number."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(question), file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline())

    def start(self, *arguments: str, world: int = 1, environment: Mapping[str, str] | None = None) -> Processes:
        """``dialog ARGUMENTS`` in ``world`` processes, as torchrun starts them."""
        self.count += 1
        log = self.folder / f"log-{self.count}"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        numbers = []
        for rank in range(world):
            own = dict(environment or {})
            if world > 1:
                own |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_PORT": port}
                own |= {"MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_RUN_ID": "none", "GROUP_RANK": "0"}
                own |= {"LOCAL_WORLD_SIZE": str(world), "TORCHELASTIC_USE_AGENT_STORE": "False"}
            where = {"folder": str(self.folder), "log": f"{log}.{rank}"}
            numbers.append(self.ask({"arguments": arguments, "environment": own, **where}))
        return Processes(self, numbers, log)


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """A server for a time; with it all that it has started end."""
    server = Server(folder)
    with server.process:  # at its end the pipes are closed, and that is waited for
        yield server


def serve() -> None:
    """Answer until nothing more is asked."""
    import dialog.runs.resume  # imports everything that a training needs
    import dialog.training.trainer
    from dialog.cli import main

    del dialog
    started = []
    for line in sys.stdin:
        question = json.loads(line)
        if "wait" in question:
            answer = os.waitstatus_to_exitcode(os.waitpid(question["wait"], 0)[1])
            started.remove(question["wait"])
        else:
            answer = os.fork()
            if not answer:
                become(main, question)
            started.append(answer)
        print(answer, flush=True)
    for number in started:
        os.kill(number, signal.SIGKILL)


def become(main: Callable[[], object], question: Mapping[str, Any]) -> None:
    """Be the process that was asked for."""
    log = os.open(question["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for own, other in ((0, nothing), (1, log), (2, log)):
        os.dup2(other, own)
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
