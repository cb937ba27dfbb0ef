"""Real processes that only wait, as in a collective, and what becomes of them when one of them fails."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

PROCESS = """
import os, socket, sys, time
from dialog.training.distributed.heartbeat import Place, Watch

rank, port = int(sys.argv[1]), int(sys.argv[2])
server = socket.create_server(("127.0.0.1", port)) if rank == 0 else None
while rank:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
        break
    except OSError:
        time.sleep(0.05)
watch = Watch(
    Place(rank, os.getpid(), socket.gethostname()),
    3,
    secret="x",
    server=server,
    address=("127.0.0.1", port),
    silence=3,
    grace=1,
)
watch.start()
while len(watch.peers) < (1 if rank else 2):
    time.sleep(0.01)
print("met", flush=True)
for line in sys.stdin:
    if line == "fail\\n":
        watch.fail("ValueError: no such luck")
        sys.exit(1)
    if line == "leave\\n":
        watch.leave()
        sys.exit(0)
"""


class Group:
    """Three processes that have met."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.processes = [self._start(rank, port) for rank in range(3)]
        for each in self.processes:
            assert each.stdout is not None
            assert each.stdout.readline() == "met\n"

    def _start(self, rank: int, port: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PROCESS, str(rank), str(port)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}, **pipes)

    def say(self, rank: int, word: str) -> None:
        stdin = self.processes[rank].stdin
        assert stdin is not None
        stdin.write(f"{word}\n")
        stdin.flush()

    def ends(self, within: float = 60) -> tuple[list[int], list[str]]:
        """Exit codes and last words of all."""
        until = time.monotonic() + within
        codes = [each.wait(max(until - time.monotonic(), 0.1)) for each in self.processes]
        return codes, [each.stderr.read() for each in self.processes if each.stderr is not None]


@pytest.fixture
def group() -> Iterator[Group]:
    made = Group()
    yield made
    for each in made.processes:
        each.kill()
        each.communicate()


def named(group: Group, rank: int) -> str:
    return f"process {rank} (pid {group.processes[rank].pid} on {socket.gethostname()})"


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_process_ends_all(group: Group, rank: int) -> None:
    group.processes[rank].kill()
    codes, words = group.ends()
    assert codes == [-signal.SIGKILL if place == rank else 1 for place in range(3)]
    assert all(f"{named(group, rank)} is gone" in said for place, said in enumerate(words) if place != rank)


@pytest.mark.parametrize("rank", [0, 2])
def test_a_stopped_process_ends_all_and_is_woken_to_end_too(group: Group, rank: int) -> None:
    os.kill(group.processes[rank].pid, signal.SIGSTOP)
    codes, words = group.ends()
    assert codes == [1, 1, 1]
    assert all(f"{named(group, rank)} has said nothing for 3 s" in said for said in words)


def test_a_process_that_fails_says_why(group: Group) -> None:
    group.say(1, "fail")
    codes, words = group.ends()
    assert codes == [1, 1, 1]
    assert all(f"{named(group, 1)} failed: ValueError: no such luck" in words[place] for place in (0, 2))


def test_who_has_come_to_his_end_is_not_missed(group: Group) -> None:
    group.say(2, "leave")
    assert group.processes[2].wait(30) == 0
    time.sleep(4)
    assert [each.poll() for each in group.processes[:2]] == [None, None]
    group.say(0, "leave")
    group.say(1, "leave")
    assert group.ends() == ([0, 0, 0], ["", "", ""])


def test_stopped_together_and_gone_on_together_none_is_missing(group: Group) -> None:
    """As with the terminal's stop key."""
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for each in group.processes:
            os.kill(each.pid, number)
        time.sleep(4)
    assert [each.poll() for each in group.processes] == [None, None, None]
