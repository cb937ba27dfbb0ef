"""Real processes that only wait, as in a collective; one of them is killed, stopped, fails or
leaves.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

SILENCE = 2.0
PROCESS = """
import os, socket, sys, time
from dialog.training.distributed.heartbeat import Address, Heartbeat

rank, port, silence = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
server = socket.create_server(("127.0.0.1", port)) if rank == 0 else None
while rank:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
        break
    except OSError:
        time.sleep(0.05)
heartbeat = Heartbeat(
    Address(rank, os.getpid(), socket.gethostname()),
    3,
    secret="x",
    server=server,
    server_address=("127.0.0.1", port),
    silence=silence,
    grace=0.5,
)
heartbeat.start()
while len(heartbeat.peers) < (1 if rank else 2):
    time.sleep(0.01)
print("connected", flush=True)
for line in sys.stdin:
    if line == "fail\\n":
        heartbeat.fail("ValueError: bad value")
        sys.exit(1)
    if line == "leave\\n":
        heartbeat.leave()
        sys.exit(0)
"""


class Group:
    """Three connected processes."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.processes = [self._start(rank, port) for rank in range(3)]
        for process in self.processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "connected\n"

    def _start(self, rank: int, port: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PROCESS, str(rank), str(port), str(SILENCE)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            command, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}, **pipes
        )

    def write(self, rank: int, word: str) -> None:
        stdin = self.processes[rank].stdin
        assert stdin is not None
        stdin.write(f"{word}\n")
        stdin.flush()

    def wait(self) -> tuple[list[int], list[str]]:
        """Return all exit codes and error outputs."""
        until = time.monotonic() + 60
        codes = [process.wait(max(until - time.monotonic(), 0.1)) for process in self.processes]
        return codes, [
            process.stderr.read() for process in self.processes if process.stderr is not None
        ]

    def name(self, rank: int) -> str:
        return f"process {rank} (pid {self.processes[rank].pid} on {socket.gethostname()})"


@pytest.fixture
def group() -> Iterator[Group]:
    started = Group()
    yield started
    for process in started.processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("rank", [0, 1])
def test_killed_process_ends_all(group: Group, rank: int) -> None:
    group.processes[rank].kill()
    codes, errors = group.wait()
    assert codes == [-signal.SIGKILL if place == rank else 1 for place in range(3)]
    assert all(
        f"{group.name(rank)} is gone" in error
        for place, error in enumerate(errors)
        if place != rank
    )


@pytest.mark.endurance
@pytest.mark.parametrize("rank", [0, 2])
def test_stopped_process_ends_all_and_is_resumed_to_exit(group: Group, rank: int) -> None:
    os.kill(group.processes[rank].pid, signal.SIGSTOP)
    codes, errors = group.wait()
    assert codes == [1, 1, 1]
    assert all(
        f"{group.name(rank)} has sent nothing for {SILENCE:.0f} s" in error for error in errors
    )


@pytest.mark.endurance
def test_failed_process_sends_its_error(group: Group) -> None:
    group.write(1, "fail")
    codes, errors = group.wait()
    assert codes == [1, 1, 1]
    assert all(
        f"{group.name(1)} failed: ValueError: bad value" in errors[place] for place in (0, 2)
    )


@pytest.mark.endurance
def test_process_that_left_is_not_missed(group: Group) -> None:
    group.write(2, "leave")
    assert group.processes[2].wait(30) == 0
    time.sleep(1.3 * SILENCE)
    assert [process.poll() for process in group.processes[:2]] == [None, None]
    group.write(0, "leave")
    group.write(1, "leave")
    assert group.wait() == ([0, 0, 0], ["", "", ""])


@pytest.mark.endurance
def test_suspended_and_resumed_together_none_is_missed(group: Group) -> None:
    """The terminal's suspend key does this."""
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for process in group.processes:
            os.kill(process.pid, number)
        time.sleep(1.3 * SILENCE)
    assert [process.poll() for process in group.processes] == [None, None, None]
