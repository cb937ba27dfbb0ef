"""Many clients at once, and clients that leave."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPResponse

import pytest
import torch
from client import CHAT, Client, serving
from starlette.types import Receive, Scope, Send

from dialog.config.components import Component
from dialog.data.tokenizers.tokenizer import Tokenizer
from dialog.generation.network_step import NetworkStep
from dialog.generation.responder import Responder
from dialog.runs.run import Run
from dialog.serving import server
from dialog.serving.app import Service
from dialog.serving.engine import Call, Engine, Generation, LoadLimits
from dialog.serving.gatekeeper import HEALTH, Gatekeeper


def post(**fields: object) -> bytes:
    body = json.dumps({"messages": [{"role": "user", "content": "Hi ."}], **fields})
    head = (
        f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type:"
        f" application/json\r\nContent-Length: {len(body)}"
    )
    return f"{head}\r\n\r\n{body}".encode()


def connected(client: Client) -> socket.socket:
    return socket.create_connection(("127.0.0.1", client.port), timeout=20)


def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, for 10 s."""
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


@contextmanager
def busy(client: Client) -> Iterator[None]:
    """Keep the worker busy until the end of the block."""
    ends = threading.Event()
    client.service.first.engine.submit(Call(ends.wait))
    try:
        until(lambda: client.service.first.engine.waiting == 0)
        yield
    finally:
        ends.set()


def test_responses_of_all_settings_share_steps(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Greedy and drawn, streamed and whole, of any length; and later ones join."""
    sizes: list[int] = []
    step = NetworkStep.__call__

    def counted(net: NetworkStep, tokens: torch.Tensor, *rest: object) -> object:
        sizes.append(len(tokens))
        return step(net, tokens, *rest)

    monkeypatch.setattr(NetworkStep, "__call__", counted)
    with ThreadPoolExecutor(9) as pool:
        with busy(client):
            answers = [
                pool.submit(client.chat, "Hi .", temperature=number % 2, stream=number > 3)
                for number in range(8)
            ]
            answers.append(pool.submit(client.chat, "Hi .", max_tokens=1, n=2, temperature=0.5))
            until(lambda: client.service.first.engine.waiting == 9)
        assert all(answer.result().status == 200 for answer in answers)
    assert sizes[0] == 10
    assert sizes == sorted(sizes, reverse=True)


def test_whole_responses_of_one_search_share_a_batch(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between their tokens those of other requests advance."""
    sizes, generate = [], Responder.generate

    def counted(
        responder: Responder, source: torch.Tensor, *rest: object, **more: object
    ) -> object:
        sizes.append(len(source))
        return generate(responder, source, *rest, **more)

    monkeypatch.setattr(Responder, "generate", counted)
    monkeypatch.setattr(client.service.first.run.recipe.generation, "search", {"name": "beam"})
    order: list[str] = []

    def ask(name: str, **fields: object) -> int:
        status = client.chat("Hi .", **fields).status
        order.append(name)
        return status

    with ThreadPoolExecutor(4) as pool:
        with busy(client):
            answers = [pool.submit(ask, "beam") for _ in range(3)]
            answers.append(pool.submit(ask, "greedy", temperature=0, max_tokens=1))
            until(lambda: client.service.first.engine.waiting == 4)
        assert all(answer.result() == 200 for answer in answers)
    assert sizes == [3]
    assert order[0] == "greedy"


# ------------------------------------------------------------------ clients that leave


@pytest.mark.parametrize("stream", [False, True])
def test_client_that_leaves_frees_its_place(client: Client, stream: bool) -> None:
    with busy(client):
        with connected(client) as leaving:
            leaving.sendall(post(stream=stream))
            until(lambda: client.service.first.engine.waiting == 1)
        until(lambda: client.service.first.engine.waiting == 0)
        assert client.get("/healthz").json["waiting"] == 0


@pytest.mark.parametrize(
    "search", [{"name": "greedy"}, {"name": "beam", "width": 2}, {"name": "contrastive"}]
)
@pytest.mark.parametrize("stream", [False, True])
def test_client_that_leaves_ends_its_generation(
    client: Client, monkeypatch: pytest.MonkeyPatch, search: Component, stream: bool
) -> None:
    steps: list[int] = []
    monkeypatch.setattr(client.service.first.run.recipe.generation, "search", search)
    for limit in ("min_length", "max_length"):
        monkeypatch.setattr(client.service.first.run.recipe.generation, limit, 500)
    for method in ("__call__", "represent"):
        monkeypatch.setattr(NetworkStep, method, slow(getattr(NetworkStep, method), steps))
    with connected(client) as leaving:
        leaving.sendall(post(stream=stream))
        until(lambda: len(steps) > 1)
    assert client.chat("Hi .", max_tokens=1).status == 200
    assert len(steps) < 100


def slow(step: Callable[..., object], steps: list[int]) -> Callable[..., object]:
    """A step that takes 5 ms."""

    def slower(*arguments: object) -> object:
        steps.append(1)
        time.sleep(0.005)
        return step(*arguments)

    return slower


def test_the_others_of_a_batch_get_their_responses(run: Run) -> None:
    generating = Engine(run, LoadLimits())
    ends = threading.Event()
    generating.submit(Call(ends.wait))
    jobs = [Generation(["Hi ."], {"name": "greedy"}) for _ in range(3)]
    for job in jobs:
        generating.submit(job)
    assert jobs[1].future.cancel()
    ends.set()
    assert jobs[0].future.result(20).candidates == jobs[2].future.result(20).candidates
    with pytest.raises(CancelledError):
        jobs[1].future.result()


# ------------------------------------------------------------------ the event loop


def test_health_does_not_wait_behind_requests() -> None:
    order: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        order.append(scope["path"])

    async def nothing(*_: object) -> None:
        pass

    async def requests() -> None:
        gate = Gatekeeper(app, token="", hosts=(), public=())
        paths = ["/v1/models"] * 50 + [HEALTH]
        scopes = [
            {"type": "http", "method": "GET", "path": path, "headers": [], "state": {}}
            for path in paths
        ]
        await asyncio.gather(*(gate(scope, nothing, nothing) for scope in scopes))

    asyncio.run(requests())
    assert len(order) == 51
    assert order.index(HEALTH) < 2


def test_texts_are_encoded_once_and_not_on_the_event_loop(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[tuple[str, str]] = []

    def recorded(method: Callable[..., object]) -> Callable[..., object]:
        def encode(tokenizer: Tokenizer, text: str | list[str]) -> object:
            encoded.extend(
                (part, threading.current_thread().name)
                for part in ([text] if isinstance(text, str) else text)
            )
            return method(tokenizer, text)

        return encode

    for name in ("encode", "encode_batch"):
        monkeypatch.setattr(Tokenizer, name, recorded(getattr(Tokenizer, name)))
    client.chat("Once .")
    client.chat("Streamed .", stream=True, stream_options={"include_usage": True})
    client.post("/attention", {"context": ["Mapped ."], "response": "Response ."})
    assert {thread for _, thread in encoded} == {"dialog-engine"}
    texts = [text for text, _ in encoded]
    assert texts.count("Once .") == texts.count("Streamed .") == 1
    encoded.clear()
    answer = client.post("/attention", {"context": ["Hi ."], "response": "a" * 5000})
    assert (answer.status, answer.json["error"]["param"]) == (400, "response")
    assert not encoded


def test_a_full_queue_is_reported_before_the_body_is_read(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client.service.first.engine, "limits", LoadLimits(waiting=0))
    assert client.get("/readyz").status == 503
    for path in (CHAT, "/attention"):
        assert client.send("POST", path, b"{").status == 429


# ------------------------------------------------------------------ connections


def test_health_is_answered_beyond_the_limit_of_connections(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 2)
    with serving(Service(run)) as client, connected(client), connected(client):
        assert client.get("/healthz").status == 200
        for answer in (client.get("/v1/models"), client.chat("Hi .")):
            assert (answer.status, answer.headers["retry-after"], answer.headers["connection"]) == (
                503,
                "1",
                "close",
            )


def test_an_idle_connection_gives_way_to_a_new_one(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 2)
    monkeypatch.setattr(server, "IDLE_SECONDS", 0)
    with serving(Service(run)) as client, connected(client) as first, connected(client) as second:
        assert status(first) == status(second) == 200
        assert client.get("/v1/models").status == 200
        assert first.recv(1) == b""
        assert status(second) == 200


def status(connection: socket.socket) -> int:
    """Send a request on a connection that stays open; return the status."""
    connection.sendall(b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    with HTTPResponse(connection) as response:
        response.begin()
        response.read()
        return response.status
