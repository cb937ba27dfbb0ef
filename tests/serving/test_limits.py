"""Hostile, slow and too many clients."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from client import CHAT, Client, serving

from dialog.generation import responder as responder_module
from dialog.generation.responder import Responder
from dialog.generation.row_loop import Row, RowLoop
from dialog.runs.run import Run
from dialog.serving import server
from dialog.serving.app import Service
from dialog.serving.engine import Call, LoadLimits
from dialog.serving.gatekeeper import MOST_BYTES


@pytest.fixture
def locked(run: Run) -> Iterator[Client]:
    with serving(Service(run, token="secret")) as client:
        yield client


def test_other_hosts_and_origins_are_rejected(client: Client) -> None:
    assert client.get("/", Host="127.0.0.1:80").status == 200
    for name in ("evil.example", "evil.example:8000", "[::2]", "", "["):
        assert client.get("/healthz", Host=name).status == 403, name
    own = f"127.0.0.1:{client.port}"
    assert client.get("/healthz", Origin=f"http://{own}").status == 200
    for origin in ("null", "http://evil.example", f"http://{own}.evil.example", "http://["):
        assert client.get("/healthz", Origin=origin).status == 403, origin


def test_key_is_needed_where_one_is_set(locked: Client) -> None:
    assert locked.get("/").status == locked.get("/healthz", Host="service.example").status == 200
    for headers in (
        {},
        {"Authorization": "secret"},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer é"},
    ):
        assert locked.get("/v1/models", **headers).status == 401, headers
    assert locked.get("/v1/models", Authorization="Bearer secret").status == 200
    assert "secret" not in locked.get("/").text


def test_a_proxy_passes_its_own_name_where_a_key_is_set(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = []
    with monkeypatch.context() as patched:
        patched.setattr(
            server.uvicorn.Server, "run", lambda server, sockets: services.append(server.config.app)
        )
        for token in ("", "secret"):
            server.serve([run], "127.0.0.1", 0, token, keep_alive=75)
    assert [app.hosts for app in services] == [server.LOCAL_NAMES, ()]
    with serving(Service(run, token="secret")) as proxied:
        headers = {
            "Host": "chat.example.org",
            "Authorization": "Bearer secret",
            "Origin": "https://chat.example.org",
        }
        assert proxied.get("/v1/models", **headers).status == 200
        assert (
            proxied.get("/v1/models", **headers | {"Origin": "https://evil.example"}).status == 403
        )


def test_every_response_has_safe_headers(client: Client) -> None:
    for answer in (
        client.get("/"),
        client.get("/missing"),
        client.get("/", Host="evil.example"),
        client.chat("Hi ."),
    ):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in answer.headers


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 400, "Invalid JSON"),
        (b"{", 400, "Invalid JSON"),
        (b"[" * 60_000, 400, "Invalid JSON: recursion limit exceeded"),
        (b'{"messages": [{"role": "user", "content": "\xff"}]}', 400, "Invalid JSON"),
        (b'{"messages": [{"role": "user", "content": "\\ud800"}]}', 400, "Invalid JSON"),
        (
            b'{"messages": [{"role": "user", "content": "' + b"a" * MOST_BYTES + b'"}]}',
            413,
            "the body is longer than",
        ),
    ],
)
def test_bodies_that_cannot_be_read(client: Client, body: bytes, status: int, message: str) -> None:
    answer = client.send("POST", CHAT, body)
    assert answer.status == status
    assert answer.error.startswith(message)


def test_other_paths_methods_and_types(client: Client) -> None:
    assert client.get("/v1/completions").status == 404
    assert client.get(CHAT).status == 405
    assert client.get(CHAT).headers["allow"] == "POST"
    answer = client.post(CHAT, {}, Content_Type="text/plain")
    assert (answer.status, answer.error) == (
        415,
        "send JSON, with `Content-Type: application/json`",
    )


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ",
        (
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type:"
            b" application/json\r\nContent-Length: 9\r\n\r\n{"
        ),
    ],
    ids=["nothing", "half a header", "half a body"],
)
def test_slow_requests_are_disconnected(
    run: Run, monkeypatch: pytest.MonkeyPatch, head: bytes
) -> None:
    monkeypatch.setattr(server, "REQUEST_SECONDS", 2)
    with (
        serving(Service(run)) as client,
        socket.create_connection(("127.0.0.1", client.port)) as slow,
    ):
        slow.settimeout(0.1)
        slow.sendall(head)
        assert is_disconnected(slow, b"1" if head else b"")
        assert client.get("/healthz").status == 200


def is_disconnected(slow: socket.socket, drop: bytes) -> bool:
    """Whether the other side closes a connection within 15 s, while a drop of data is sent now and
    then.
    """
    end = time.monotonic() + 15
    while time.monotonic() < end:
        try:
            slow.sendall(drop)
            if slow.recv(1) == b"":
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


@pytest.mark.endurance
def test_time_of_a_second_request(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_SECONDS", 2)
    with (
        serving(Service(run)) as client,
        socket.create_connection(("127.0.0.1", client.port)) as slow,
    ):
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        slow.settimeout(20)
        assert slow.recv(4096).startswith(b"HTTP/1.1 200 ")
        slow.settimeout(0.1)
        slow.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
        assert is_disconnected(slow, b"1")


@pytest.mark.endurance
def test_client_that_does_not_read_is_disconnected(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "READ_SECONDS", 2)
    service = Service(run)
    service.page = "x" * 50_000_000
    with (
        serving(service) as client,
        socket.create_connection(("127.0.0.1", client.port), timeout=20) as slow,
    ):
        slow.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        time.sleep(4)
        assert len(b"".join(iter(lambda: received(slow), b""))) < 50_000_000
        assert client.get("/").text == service.page


@pytest.mark.endurance
def test_client_that_only_sends_is_disconnected(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "READ_SECONDS", 2)
    service = Service(run)
    service.page = "x" * 50_000_000
    with (
        serving(service) as client,
        socket.create_connection(("127.0.0.1", client.port), timeout=20) as deaf,
        pytest.raises(OSError, match=r"Broken pipe|Connection reset"),
    ):
        send_again_and_again(deaf)


def send_again_and_again(connection: socket.socket) -> None:
    """Send requests for 15 s."""
    end = time.monotonic() + 15
    while time.monotonic() < end:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        time.sleep(0.5)


def received(connection: socket.socket) -> bytes:
    """The next bytes of a connection; none after its end."""
    try:
        return connection.recv(1 << 20)
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize("length", [b"-1", b"1\r\nTransfer-Encoding: chunked"])
def test_contradictory_lengths_are_rejected(client: Client, length: bytes) -> None:
    with socket.create_connection(("127.0.0.1", client.port), timeout=20) as raw:
        raw.sendall(
            b"POST /attention HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: "
            + length
            + b"\r\n\r\n{}"
        )
        answer = b"".join(iter(lambda: received(raw), b""))
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"connection: close" in answer.lower()


@pytest.mark.endurance
def test_slow_response_does_not_end_with_the_time_of_the_request(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "REQUEST_SECONDS", 2)
    with serving(Service(run)) as client:
        client.service.first.engine.submit(Call(lambda: time.sleep(3)))
        assert client.chat("Hi .").status == 200


def test_too_many_requests(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.service.first.engine, "limits", LoadLimits(waiting=2))
    ends = threading.Event()
    jobs = [Call(ends.wait) for _ in range(3)]
    client.service.first.engine.submit(jobs[0])
    while client.service.first.engine.waiting:
        time.sleep(0.01)
    for job in jobs[1:]:
        client.service.first.engine.submit(job)
    answer = client.chat("Hi .")
    assert (answer.status, answer.headers["retry-after"]) == (429, "1")
    assert answer.json["error"]["code"] == "rate_limit_exceeded"
    assert client.get("/healthz").json["waiting"] == 2
    ends.set()
    jobs[-1].future.result(timeout=20)
    assert client.chat("Hi .").status == 200


def test_deadline(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.service, "limits", LoadLimits(seconds=0.3))
    ends = threading.Event()
    client.service.first.engine.submit(Call(ends.wait))
    for fields in ({}, {"stream": True}):
        answer = client.chat("Hi .", **fields)
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    ends.set()
    monkeypatch.setattr(client.service, "limits", LoadLimits())
    assert client.chat("Hi .").status == 200


@pytest.mark.parametrize(
    ("step", "fields"),
    [("begin", {}), ("begin", {"stream": True}), ("advance", {})],
    ids=["begin", "begin a stream", "advance"],  # a stream has begun by then: the next test
)
def test_failure_shows_nothing_of_the_inside(
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    step: str,
    fields: dict[str, bool],
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(RowLoop, step, lambda *_: 1 / 0)
        answer = client.chat("Hi .", **fields)
    assert (answer.status, answer.error) == (500, "internal failure")
    assert "ZeroDivisionError" in caplog.text
    assert client.chat("Hi .", **fields).status == 200


def test_failure_in_the_middle_of_a_stream(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    advance = RowLoop.advance
    steps: list[int] = []

    def failing(loop: RowLoop) -> None:
        advance(loop)
        steps.append(1)
        if len(steps) > 2:
            raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(RowLoop, "advance", failing)
        answer = client.chat("Hi .", stream=True)
    *_, piece, last = [
        json.loads(line.removeprefix("data: ")) for line in answer.text.strip().split("\n\n")
    ]
    assert piece["choices"][0]["delta"]["content"]
    assert last["error"]["message"] == "internal failure"
    assert client.chat("Hi .").status == 200


def test_scores_that_are_not_numbers(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Row, "hypothesis", lambda _: None)
    monkeypatch.setattr(Responder, "generate", lambda *_, **__: [[]])
    assert client.chat("Hi .").error == "the scores of the model are not numbers"
    maps = client.post("/attention", {"context": ["Hi ."]})
    assert (maps.status, maps.error) == (500, "the scores of the model are not numbers")


def test_searches_of_many_requests_are_not_kept(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The networks, which may hold fused or int8 weights, are built once."""
    monkeypatch.setattr(responder_module, "MOST_SEARCHES", 3)
    responder = client.service.first.engine.run.responder
    networks = responder._networks
    responder._searches.clear()
    replies = [client.chat("Hi .", temperature=0.1 + step / 10, seed=1).reply for step in range(9)]
    assert len(responder._searches) == 3
    assert responder._networks is networks
    assert replies == [
        client.chat("Hi .", temperature=0.1 + step / 10, seed=1).reply for step in range(9)
    ]
