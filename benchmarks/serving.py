"""Throughput and time to the first token of `dialog serve`: one streaming client against many.

    python benchmarks/serving.py RUN
    python benchmarks/serving.py RUN --clients 32 --seconds 5 generation=beam5

Start the service in a process of its own and send contexts one after the other, from one client
and from several at once in turns, for ``--seconds`` each in three rounds, so that both meet the
same machine. Responses are streamed; they end where the model ends them. With ``--tokens N`` all
have N tokens, so that clients keep step: all requests of a round come at the same time. Print for both the medians of the
rounds: generated tokens per second, seconds from a request to its first piece of text, and
processor time of the service for a token, which other processes hardly change (Linux); and the
ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROUNDS = 3
WORDS = ("anna", "the", "kitchen", "apples", "where", "is", "garden", "who", "two", "has")


class Reply(NamedTuple):
    """One streamed response."""

    tokens: int
    first: float  # seconds until its first text


class Load(NamedTuple):
    """Figures of some clients."""

    rate: float  # tokens per second
    first: float  # median of the seconds until the first text
    cost: float  # processor seconds of the service per token


async def ask(port: int, number: int) -> Reply:
    """Send a context; read its response to the end."""
    text = " ".join(WORDS[(number * step) % len(WORDS)] for step in range(1, 4 + number % 9))
    body = json.dumps(
        {
            "messages": [{"role": "user", "content": f"{text} ?"}],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    begin = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head.encode() + body)
    answer = b""
    first = 0.0
    while piece := await reader.read(2**16):
        answer += piece
        if not first and answer.count(b'"content"') > 1:  # the first one is empty
            first = time.perf_counter() - begin
    writer.close()
    counted = answer.rpartition(b'"completion_tokens":')[2]
    if not counted:
        raise SystemExit(f"the service answers: {answer.decode(errors='replace')[:500]}")
    return Reply(int(counted.partition(b",")[0]), first)


async def load(process: int, port: int, clients: int, seconds: float) -> Load:
    """Return the figures of clients that send requests for some seconds."""
    replies: list[Reply] = []
    begin = time.perf_counter()
    before = processor_seconds(process)

    async def client(number: int) -> None:
        while time.perf_counter() - begin < seconds:
            number += clients
            replies.append(await ask(port, number))

    await asyncio.gather(*(client(number) for number in range(clients)))
    tokens = sum(reply.tokens for reply in replies)
    return Load(
        tokens / (time.perf_counter() - begin),
        statistics.median(reply.first for reply in replies),
        (processor_seconds(process) - before) / tokens,
    )


def processor_seconds(process: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure a run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("run")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--tokens", type=int, default=0)
    given = parser.parse_intermixed_args()
    limits = ("min", "max") if given.tokens else ()
    lengths = [f"generation.{limit}_length={given.tokens}" for limit in limits]
    command = [sys.executable, "-m", "dialog", "serve", given.run, *lengths, "--port", "0"]
    with subprocess.Popen(
        [*command, *given.overrides], stdout=subprocess.PIPE, text=True
    ) as service:
        try:
            assert service.stdout is not None
            port = int(service.stdout.readline().partition(" serves ")[0].rpartition(":")[2])
            counts = (1, given.clients)
            rounds = [
                [asyncio.run(load(service.pid, port, count, given.seconds)) for count in counts]
                for _ in range(1 + ROUNDS)  # the first one warms up
            ]
        finally:
            service.terminate()
    one, many = (
        Load(*map(statistics.median, zip(*column, strict=True)))
        for column in zip(*rounds[1:], strict=True)
    )
    for clients, figures in zip(counts, (one, many), strict=True):
        print(
            f"{clients:3} clients: {figures.rate:7.0f} tokens/s, first text after"
            f" {figures.first * 1e3:5.0f} ms, {figures.cost * 1e3:.2f} ms of processor per token"
        )
    print(
        f"ratios: throughput {many.rate / one.rate:.2f}, first text {many.first / one.first:.2f},"
        f" tokens per processor second {one.cost / many.cost:.2f}"
    )


if __name__ == "__main__":
    main()
