"""Health, refusals and leaving clients of `dialog serve` under load.

    python benchmarks/service.py RUN [--clients 60,250,600] [--seconds 8]

The server, its clients and the probe are processes of this machine. The clients of a row send one
request after the other, each on a connection that is kept alive, and a refused one tries again at
once. Meanwhile the probe opens a new connection for each `GET /healthz`, 50 a second if the answers
are fast.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Process
from multiprocessing.pool import ThreadPool
from typing import NamedTuple

CHAT = "/v1/chat/completions"
PAUSE = 0.02
PATIENCE = 20.0
"""Seconds between two probes, and of a client that waits."""


class Probes(NamedTuple):
    """Seconds until each answer of `GET /healthz`, and the number of other answers."""

    seconds: list[float]
    failed: int

    def cells(self) -> str:
        """Return median, 99th percentile and maximum in milliseconds, and the failures, as cells of
        a table.
        """
        taken = sorted(1000 * seconds for seconds in self.seconds)
        shown = statistics.median(taken), taken[int(0.99 * len(taken))], taken[-1]
        return " | ".join([*(f"{value:.0f}" for value in shown), f"{self.failed} of {len(taken)}"])


def message(path: str, body: object) -> bytes:
    """Return a POST request."""
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type:"
        f" application/json\r\nContent-Length: {len(content)}"
    )
    return f"{head}\r\n\r\n".encode() + content


def chat(text: str, **fields: object) -> bytes:
    """Return a chat of one turn."""
    return message(CHAT, {"messages": [{"role": "user", "content": text}], **fields})


@contextmanager
def server(run: str) -> Iterator[int]:
    """Serve a run; return the port."""
    command = [sys.executable, "-m", "dialog", "serve", run, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline().partition(" serves ")[0].rpartition(":")[2])
        finally:
            process.terminate()


def probe(port: int, seconds: float) -> Probes:
    """Ask for the health for some seconds."""
    taken = []
    failed = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.perf_counter()
        failed += ask(port, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") != 200
        taken.append(time.perf_counter() - start)
        time.sleep(PAUSE)
    return Probes(taken, failed)


def ask(port: int, request: bytes) -> int:
    """Return the status of a request on a new connection; 0 without an answer."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
            connection.sendall(request)
            return int(connection.recv(65536)[9:12] or 0)
    except OSError:
        return 0


async def client(port: int, number: int, end: float, statuses: Counter[int]) -> None:
    """Send requests until a time; count the statuses, 0 for a connection that ended without an
    answer.
    """
    writer = None
    request = chat(f"Anna has {number} apples .")
    while time.monotonic() < end:
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)).lower()
            await reader.readexactly(
                int(head.partition(b"content-length: ")[2].partition(b"\r")[0])
            )
            statuses[int(head[9:12])] += 1
            closes = b"connection: close" in head
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            statuses[0] += 1
            closes = True
        if closes and writer is not None:
            writer.close()
            writer = None


def clients(port: int, number: int, seconds: float) -> None:
    """Load the server; print the statuses per second."""
    statuses: Counter[int] = Counter()

    async def run() -> None:
        end = time.monotonic() + seconds
        await asyncio.gather(*(client(port, place, end, statuses) for place in range(number)))

    asyncio.run(run())
    answers = ", ".join(
        f"{status or 'no answer'}: {count / seconds:.0f}/s"
        for status, count in sorted(statuses.items())
    )
    print(f"| {number:,} clients | {answers} |", end=" ", flush=True)


def row(port: int, load: Process, seconds: float) -> None:
    """Print the row of a load."""
    load.start()
    measured = probe(port, seconds)
    load.join()
    print(measured.cells(), "|", flush=True)


def long_bodies(port: int) -> None:
    """Send 60 bodies of 60 KB at once, half of them chats and half responses whose maps are asked
    for.
    """
    text = "word " * 12_000
    bodies = [
        chat(text, max_tokens=1),
        message("/attention", {"context": ["Hi ."], "response": text}),
    ] * 30
    with ThreadPool(len(bodies)) as pool:
        statuses = Counter(pool.map(lambda body: ask(port, body), bodies))
    answers = ", ".join(
        f"{status or 'no answer'}: {count}" for status, count in sorted(statuses.items())
    )
    print(f"| 60 bodies of 60 KB | {answers} |", end=" ", flush=True)


def leave(port: int, count: int = 60) -> None:
    """Send requests that cannot share a batch, close their connections, and print the time of the
    next request.
    """
    for seed in range(count):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(chat("Hi .", temperature=1.0 + seed / 100, seed=seed))
    start = time.perf_counter()
    status = ask(port, chat("Hi ."))
    print(
        f"The request after {count} clients that left: {time.perf_counter() - start:.2f} s, status"
        f" {status}."
    )


def main() -> None:
    """Print one row per load, and the time of a request after clients that left."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run")
    parser.add_argument("--clients", default="60,250,600")
    parser.add_argument("--seconds", type=float, default=8)
    options = parser.parse_args()
    with server(options.run) as port:
        start = time.perf_counter()
        ask(port, chat("Hi ."))
        print(f"The first request of all: {time.perf_counter() - start:.2f} s.", flush=True)
        leave(port)
        print(
            "| load | answers | median ms | p99 ms | largest ms | failed |\n| --- | --- | ---: |"
            " ---: | ---: | ---: |"
        )
        print("| none | |", probe(port, options.seconds / 2).cells(), "|", flush=True)
        row(port, Process(target=long_bodies, args=(port,)), 2)
        for number in map(int, options.clients.split(",")):
            row(
                port, Process(target=clients, args=(port, number, options.seconds)), options.seconds
            )


if __name__ == "__main__":
    main()
