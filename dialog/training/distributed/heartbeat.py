"""Detect a dead, stopped or failed process: all processes end, and print the cause."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

GRACE = 5.0
"""Seconds for a process to exit after it has learned of a failure."""
MISSED_BEATS = 15
"""Beats without a message after which a process counts as stopped."""


class Address(NamedTuple):
    """Rank, process id and host of a process."""

    rank: int
    pid: int
    host: str

    def __str__(self) -> str:
        return f"process {self.rank} (pid {self.pid} on {self.host})"

    def send_signal(self, number: int) -> None:
        """Send a signal, if the process runs on this machine."""
        if self.host == socket.gethostname():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)


@dataclass
class Peer:
    """Connection to another process."""

    connection: socket.socket
    address: Address
    unread: bytes = b""
    missed: int = 0  # beats
    done: bool = False

    def send(self, **message: object) -> None:
        """Send a message; an empty one is a beat. A broken connection shows when it is read."""
        with suppress(OSError):
            self.connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> list[dict[str, str]] | None:
        """Return the messages that have arrived; None if the connection is closed."""
        try:
            received = self.connection.recv(4096)
        except OSError:
            received = b""
        if not received:
            return None
        self.missed = 0
        *lines, self.unread = (self.unread + received).split(b"\n")
        return [json.loads(line) for line in lines]


class Heartbeat(threading.Thread):
    """Thread that sends beats to the other processes and checks theirs.

    The first process has a connection to each other one. A closed connection means that a process
    is gone; `MISSED_BEATS` without a message mean that it is stopped or cut off. Beats are counted,
    not seconds: when all processes are suspended and resumed together, none is missed. A stopped
    process on this machine is resumed so that it can exit, and killed if it does not.

    Collectives cannot replace this: they wait for half an hour by default and do not name the
        missing rank.

    Args:
        address: This process.
        world_size: Number of processes.
        secret: Known to these processes only.
        server: Listening socket of the first process.
        server_address: Host and port at which the others connect.
        silence: Seconds without a message after which a process counts as stopped.
        grace: Seconds for a process to exit by itself after it has learned of a failure.
        before_exit: Called before this process is ended.
    """

    def __init__(
        self,
        address: Address,
        world_size: int,
        *,
        secret: str,
        server: socket.socket | None = None,
        server_address: tuple[str, int] | None = None,
        silence: float = 30.0,
        grace: float = GRACE,
        before_exit: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(daemon=True, name="heartbeat")
        self.address = address
        self.world_size = world_size
        self.secret = secret
        self.server = server
        self.server_address = server_address
        self.interval = silence / MISSED_BEATS  # seconds between two beats
        self.grace = grace
        self.before_exit = before_exit
        self.peers: list[Peer] = []
        self.cause = ""
        """Reason for the end of training."""
        self.failed = threading.Event()
        self.closed = threading.Event()

    def run(self) -> None:
        """Connect, then beat until this process leaves or another one fails."""
        try:
            self._connect()
        except OSError as error:
            return self._fail_all(
                f"{self.address} could not connect to all others within a minute: {error}"
            )
        beat_at = time.monotonic()
        while self.peers and not self.closed.is_set():
            ready, _, _ = select.select(
                [peer.connection for peer in self.peers], [], [], self.interval / 4
            )
            for peer in [peer for peer in self.peers if peer.connection in ready]:
                self._receive(peer)
            if time.monotonic() - beat_at >= self.interval:
                beat_at = time.monotonic()
                self._beat()

    def fail(self, cause: str) -> None:
        """Send the others the error that ends this process."""
        self.cause = self.cause or f"{self.address} failed: {cause}"
        self._close(failed=self.cause)

    def leave(self) -> None:
        """Send the others that this process has finished."""
        self._close(done="")

    def _close(self, **message: str) -> None:
        self.closed.set()
        for peer in self.peers:
            peer.send(**message)

    def _connect(self) -> None:
        until = time.monotonic() + 60
        if self.server is not None:
            while len(self.peers) < self.world_size - 1:
                self.server.settimeout(max(until - time.monotonic(), 0.1))
                self._accept(self.server.accept()[0])
        elif self.server_address is not None:
            connection = socket.create_connection(self.server_address, timeout=60)
            connection.sendall(json.dumps([self.secret, *self.address]).encode() + b"\n")
            self.peers.append(Peer(connection, Address(*json.loads(first_line(connection)))))
        for peer in self.peers:
            peer.connection.settimeout(5)

    def _accept(self, connection: socket.socket) -> None:
        """Add a peer that sends the secret."""
        connection.settimeout(5)
        with suppress(OSError, ValueError):
            secret, *address = json.loads(first_line(connection))
            if secret == self.secret:
                connection.sendall(json.dumps(self.address).encode() + b"\n")
                self.peers.append(Peer(connection, Address(*address)))

    def _receive(self, peer: Peer) -> None:
        messages = peer.receive()
        if messages is None:
            self.peers.remove(peer)
            if not peer.done:
                self._fail_all(f"{peer.address} is gone: killed, or out of memory")
        for message in messages or []:
            peer.done = peer.done or "done" in message
            if "failed" in message:
                self._fail_all(message["failed"])

    def _beat(self) -> None:
        for peer in self.peers:
            peer.send()
            peer.missed += 1
            if peer.missed > MISSED_BEATS and not peer.done:
                silence = (
                    f"has sent nothing for {MISSED_BEATS * self.interval:.0f} s: stopped, or"
                    " cut off"
                )
                return self._fail_all(f"{peer.address} {silence}", peer)

    def _fail_all(self, cause: str, stopped: Peer | None = None) -> None:
        """Send the cause to the others; exit, if a broken collective does not end this process
        before.
        """
        if self.closed.is_set():
            return
        self.cause = self.cause or cause
        self.failed.set()
        for peer in self.peers:
            peer.send(failed=self.cause)
        if stopped is not None:
            stopped.address.send_signal(signal.SIGCONT)
        time.sleep(self.grace)
        if stopped is not None:
            time.sleep(self.grace)
            stopped.address.send_signal(signal.SIGKILL)
        self.before_exit()
        print(f"dialog: {self.cause}", file=sys.stderr, flush=True)  # noqa: T201 - reason for the exit
        os._exit(1)


def first_line(connection: socket.socket) -> bytes:
    """Read the first line of a connection, at most 1,000 bytes, and nothing after it."""
    line = b""
    while not line.endswith(b"\n") and len(line) < 1000:
        line += connection.recv(1) or b"\n"
    return line
