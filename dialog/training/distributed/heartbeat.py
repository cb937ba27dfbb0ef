"""Processes that watch over each other: where one fails, is killed or stopped, all end, and say why."""

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
"""Seconds, see `Watch`."""
BEATS = 15
"""As many beats without a word, and a process counts as stopped."""


class Place(NamedTuple):
    """Where a process runs."""

    rank: int
    pid: int
    host: str

    def __str__(self) -> str:
        return f"process {self.rank} (pid {self.pid} on {self.host})"

    def send(self, number: int) -> None:
        """Send it a signal, if it is on this machine."""
        if self.host == socket.gethostname():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)


@dataclass
class Peer:
    """The other end of a connection."""

    connection: socket.socket
    place: Place
    text: bytes = b""
    silent: int = 0  # beats
    done: bool = False

    def send(self, **message: object) -> None:
        """Send a line; nothing is a beat. Whether the other end is there is noticed where it is heard."""
        with suppress(OSError):
            self.connection.sendall(json.dumps(message).encode() + b"\n")

    def hear(self) -> list[dict[str, str]] | None:
        """The messages that have come; nothing once the connection is closed."""
        try:
            heard = self.connection.recv(4096)
        except OSError:
            heard = b""
        if not heard:
            return None
        self.silent = 0
        *lines, self.text = (self.text + heard).split(b"\n")
        return [json.loads(line) for line in lines]


class Watch(threading.Thread):
    """A thread that tells the others that this process lives, and hears whether they do.

    The first process has a connection to each of the others. A connection that breaks means that a process is gone; one
    on which nothing is heard for so many beats, that it is stopped or cut off. Beats are counted, not seconds: where
    all were stopped together and go on, none is missing. A stopped process of the same machine is woken, so that it
    learns what has happened and ends too; killed, if it does not.

    Collectives cannot do this: they wait, for half an hour by default, and never say for whom.

    Args:
        place: This process.
        world: How many there are.
        secret: Known to these processes only.
        server: Where the first one listens.
        address: Where the others find it.
        silence: Seconds without a word after which a process counts as stopped.
        grace: Seconds in which a process ends by itself once it knows that another has failed.
        last: To be done before a process that does not end by itself is ended.
    """

    def __init__(
        self,
        place: Place,
        world: int,
        *,
        secret: str,
        server: socket.socket | None = None,
        address: tuple[str, int] | None = None,
        silence: float = 30.0,
        grace: float = GRACE,
        last: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(daemon=True, name="watch")
        self.place, self.world, self.secret, self.server, self.address = place, world, secret, server, address
        self.seconds = silence / BEATS  # between two beats
        self.grace = grace
        self.last = last
        self.peers: list[Peer] = []
        self.cause = ""
        """What has ended the training."""
        self.ended = threading.Event()
        self.over = threading.Event()

    def run(self) -> None:
        """Until all is over."""
        try:
            self._meet()
        except OSError as error:
            return self._end(f"{self.place} has not found all others within a minute: {error}")
        beat = time.monotonic()
        while self.peers and not self.over.is_set():
            ready, _, _ = select.select([each.connection for each in self.peers], [], [], self.seconds / 4)
            for peer in [each for each in self.peers if each.connection in ready]:
                self._hear(peer)
            if time.monotonic() - beat >= self.seconds:
                beat = time.monotonic()
                self._beat()

    def fail(self, cause: str) -> None:
        """Tell the others why this process ends."""
        self.cause = self.cause or f"{self.place} failed: {cause}"
        self._leave(failed=self.cause)

    def leave(self) -> None:
        """Tell the others that this process has come to its end."""
        self._leave(done="")

    def _leave(self, **message: str) -> None:
        self.over.set()
        for peer in self.peers:
            peer.send(**message)

    def _meet(self) -> None:
        """Connect, and say who is who."""
        until = time.monotonic() + 60
        if self.server is not None:
            while len(self.peers) < self.world - 1:
                self.server.settimeout(max(until - time.monotonic(), 0.1))
                self._greet(self.server.accept()[0])
        elif self.address is not None:
            connection = socket.create_connection(self.address, timeout=60)
            connection.sendall(json.dumps([self.secret, *self.place]).encode() + b"\n")
            self.peers.append(Peer(connection, Place(*json.loads(first_line(connection)))))
        for peer in self.peers:
            peer.connection.settimeout(5)

    def _greet(self, connection: socket.socket) -> None:
        """Take in who knows the secret."""
        connection.settimeout(5)
        with suppress(OSError, ValueError):
            secret, *place = json.loads(first_line(connection))
            if secret == self.secret:
                connection.sendall(json.dumps(self.place).encode() + b"\n")
                self.peers.append(Peer(connection, Place(*place)))

    def _hear(self, peer: Peer) -> None:
        """Take note of what a peer says."""
        messages = peer.hear()
        if messages is None:
            self.peers.remove(peer)
            if not peer.done:
                self._end(f"{peer.place} is gone: killed, or out of memory")
        for message in messages or []:
            peer.done = peer.done or "done" in message
            if "failed" in message:
                self._end(message["failed"])

    def _beat(self) -> None:
        """Say that this process lives, and count who does not."""
        for peer in self.peers:
            peer.send()
            peer.silent += 1
            if peer.silent > BEATS and not peer.done:
                silence = f"has said nothing for {BEATS * self.seconds:.0f} s: stopped, or cut off"
                return self._end(f"{peer.place} {silence}", peer)

    def _end(self, cause: str, stopped: Peer | None = None) -> None:
        """Tell the others; then this process ends by itself, as its exchange with the others breaks, or is ended."""
        if self.over.is_set():
            return
        self.cause = self.cause or cause
        self.ended.set()
        for peer in self.peers:
            peer.send(failed=self.cause)
        if stopped is not None:
            stopped.place.send(signal.SIGCONT)
        time.sleep(self.grace)
        if stopped is not None:
            time.sleep(self.grace)
            stopped.place.send(signal.SIGKILL)
        self.last()
        print(f"dialog: {self.cause}", file=sys.stderr, flush=True)  # noqa: T201 - the last word
        os._exit(1)


def first_line(connection: socket.socket) -> bytes:
    """What comes first on a connection, and no more of it."""
    line = b""
    while not line.endswith(b"\n") and len(line) < 1000:
        line += connection.recv(1) or b"\n"
    return line
