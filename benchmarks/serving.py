"""Throughput and time to the first token of `dialog serve`: one streaming client against many.

    python benchmarks/serving.py RUN
    python benchmarks/serving.py RUN --clients 32 --seconds 5 generation=beam5

Start the service in a process of its own and send contexts one after the other, first from one
client, then from several at once, for a few seconds each. Responses are streamed and have
``--tokens`` tokens. Print for both the generated tokens per second, and the median and the 90th
percentile of the time from a request to its first piece of text, and both ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

WORDS = ("anna", "the", "kitchen", "apples", "where", "is", "garden", "who", "two", "has")


class Reply(NamedTuple):
    """One streamed response."""

    tokens: int
    first: float  # seconds until its first text


class Load(NamedTuple):
    """Figures of some clients."""

    rate: float  # tokens per second
    median: float  # seconds until the first text
    late: float  # its 90th percentile


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


async def load(port: int, clients: int, seconds: float) -> Load:
    """Return the figures of clients that send requests for some seconds."""
    replies: list[Reply] = []
    begin = time.perf_counter()

    async def client(number: int) -> None:
        while time.perf_counter() - begin < seconds:
            number += clients
            replies.append(await ask(port, number))

    await asyncio.gather(*(client(number) for number in range(clients)))
    passed = time.perf_counter() - begin
    times = sorted(reply.first for reply in replies)
    rate = sum(reply.tokens for reply in replies) / passed
    return Load(rate, statistics.median(times), times[int(0.9 * (len(times) - 1))])


def main() -> None:
    """Measure a run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("run")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--tokens", type=int, default=20)
    given = parser.parse_intermixed_args()
    lengths = [f"generation.{limit}_length={given.tokens}" for limit in ("min", "max")]
    command = [sys.executable, "-m", "dialog", "serve", given.run, *lengths, "--port", "0"]
    with subprocess.Popen(
        [*command, *given.overrides], stdout=subprocess.PIPE, text=True
    ) as service:
        try:
            assert service.stdout is not None
            port = int(service.stdout.readline().partition(" serves ")[0].rpartition(":")[2])
            asyncio.run(load(port, given.clients, 0.5))  # warm-up
            one = asyncio.run(load(port, 1, given.seconds))
            many = asyncio.run(load(port, given.clients, given.seconds))
        finally:
            service.terminate()
    for clients, figures in ((1, one), (given.clients, many)):
        print(
            f"{clients:3} clients: {figures.rate:7.0f} tokens/s, first text after"
            f" {figures.median * 1e3:5.0f} ms (90 %: {figures.late * 1e3:.0f} ms)"
        )
    print(
        f"ratios: throughput {many.rate / one.rate:.2f}, first text {many.median / one.median:.2f}"
    )


if __name__ == "__main__":
    main()
