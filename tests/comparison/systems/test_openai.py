"""OpenAI-compatible endpoints: `dialog serve`, rate limits, failures, keys and costs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from client import serving

from dialog.comparison.systems.answers import ANSWERS, SYSTEM, Answers
from dialog.comparison.systems.lines import messages_of
from dialog.comparison.systems.openai import (
    KEY,
    LONGEST_WAIT,
    Endpoint,
    cost_of,
    endpoint_of,
    retry_seconds,
)
from dialog.comparison.systems.program import answer_contexts
from dialog.comparison.systems.specification import parse_system
from dialog.errors import UserError
from dialog.runs.load import load
from dialog.serving.app import Service

SECRET = "sk-very-secret"


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's own addresses are reached without a proxy."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv(KEY, SECRET)


def test_dialog_serve_is_an_endpoint(trained: Callable[[str], Path], tmp_path: Path) -> None:
    run = load(trained("lstm"), device="cpu")
    contexts = [["Hello ."], ["Hi .", "How are you ?"], ["Good morning ."]]
    rows = [
        {"id": str(number), "context": context, "references": ["Fine ."]}
        for number, context in enumerate(contexts)
    ]
    with serving(Service(run, hosts=("127.0.0.1",))) as client:
        model = client.get("/v1/models").json["data"][0]["id"]
        url = f"http://127.0.0.1:{client.port}/v1#{model}"
        served = parse_system(f"served: openai:{url} parallel=2 price=1/2")
        answers = Answers(tmp_path / "served", "served", [row["id"] for row in rows])
        answer_contexts(served, rows, answers, seconds=60)
    lines = (tmp_path / "served" / ANSWERS).read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["response"] for line in lines] == [
        run.respond(context).text for context in contexts
    ]
    stored = (tmp_path / "served" / SYSTEM).read_text(encoding="utf-8")
    (session,) = json.loads(stored)["sessions"]
    assert (session["model"], session["requests"]) == (model, 3)
    tokens = session["prompt_tokens"] + 2 * session["completion_tokens"]
    assert session["cost"] == pytest.approx(tokens / 1e6)
    assert SECRET not in stored


Request = tuple[str | None, dict[str, Any]]
"""Authorization and body."""


class ScriptedEndpoint(NamedTuple):
    """An endpoint of a scripted server, the pauses that it made, and the requests that it sent."""

    endpoint: Endpoint
    pauses: list[float]
    seen: list[Request]


class Scripted(BaseHTTPRequestHandler):
    """Replies as a list says, and records requests."""

    replies: Iterator[tuple[int, dict[str, str], Any]]
    requests: list[Request]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append((self.headers["Authorization"], body))
        status, headers, content = next(self.replies)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def scripted() -> Iterator[Callable[..., ScriptedEndpoint]]:
    """``scripted(*replies)``: an endpoint that gives them in turn, and never waits."""
    servers = []

    def start(*replies: tuple[int, dict[str, str], Any]) -> ScriptedEndpoint:
        class Handler(Scripted):
            pass

        Handler.replies = iter(replies)
        Handler.requests = []
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        pauses: list[float] = []
        endpoint = Endpoint(
            f"http://127.0.0.1:{server.server_port}/v1",
            "m",
            {"temperature": 0.0, "seed": 1},
            retries=3,
            pause=pauses.append,
        )
        return ScriptedEndpoint(endpoint, pauses, Handler.requests)

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def reply(text: object) -> tuple[int, dict[str, str], Any]:
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    message = {"choices": [{"message": {"content": text}}], "usage": usage, "model": "m-2"}
    return 200, {}, message


def test_rate_limits_and_failures_are_waited_for(scripted: Callable[..., Any]) -> None:
    endpoint, pauses, seen = scripted(
        (429, {"Retry-After": "7"}, {"error": {"message": "slow down"}}),
        (503, {}, "overloaded"),
        reply("Fine ."),
    )
    assert endpoint.respond(["Hi .", "Hello .", "How are you ?"]) == "Fine ."
    assert pauses == [7.0, 2.0]
    assert endpoint.used == {
        "requests": 3, "retries": 2, "prompt_tokens": 7, "completion_tokens": 3,
    }  # fmt: skip
    assert endpoint.answered_by == {"model": "m-2"}
    authorization, body = seen[-1]
    assert authorization == f"Bearer {SECRET}"
    assert (body["model"], body["temperature"], body["seed"]) == ("m", 0.0, 1)
    assert body["messages"] == messages_of(["Hi .", "Hello .", "How are you ?"])
    assert [one["role"] for one in body["messages"]] == ["user", "assistant", "user"]


@pytest.mark.parametrize(
    ("replies", "message", "requests"),
    [
        ([(401, {}, {"error": {"message": f"bad key {SECRET}"}})], r"401: bad key \.\.\.", 1),
        ([(302, {"Location": "http://127.0.0.1:1/"}, "")], "302", 1),
        ([(500, {}, "broken")] * 4, "failed 4 times, at last with 500", 4),
        ([(200, {}, {"choices": []})], "no choices", 1),
        ([reply(None)], "no text", 1),
    ],
)
def test_an_endpoint_that_gives_no_response(
    scripted: Callable[..., Any], replies: list[Any], message: str, requests: int
) -> None:
    endpoint, _, seen = scripted(*replies)
    with pytest.raises(UserError, match=message) as failed:
        endpoint.respond(["Hi ."])
    assert len(seen) == requests
    assert SECRET not in str(failed.value)


def test_an_endpoint_that_is_not_there() -> None:
    pauses: list[float] = []
    endpoint = Endpoint("http://127.0.0.1:1/v1", "m", retries=1, pause=pauses.append)
    with pytest.raises(UserError, match="failed 2 times, at last with no reply"):
        endpoint.respond(["Hi ."])
    assert pauses == [1.0]


def test_options_and_headers() -> None:
    endpoint, _ = endpoint_of("http://h/v1/chat/completions#a/b", ["temperature=none", "seed=3"])
    assert (endpoint.url, endpoint.model, endpoint.fields) == ("http://h/v1", "a/b", {"seed": 3})
    for target, words in (
        ("h/v1#m", []),
        ("http://h#m", ["seed=x"]),
        ("http://h#m", ["speed=1"]),
        ("http://h#m", ["temperature=-1"]),
    ):
        with pytest.raises(UserError):
            endpoint_of(target, words)
    with pytest.raises(UserError, match="price=3"):
        cost_of({}, "3")
    assert 50 < retry_seconds(formatdate(time.time() + 60)) <= 60
    assert [retry_seconds(text) for text in ("5", "", "soon", "inf", "-3", "9" * 30)] == [
        5, 0, 0, 0, 0, LONGEST_WAIT,
    ]  # fmt: skip
