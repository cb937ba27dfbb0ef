"""A service in this process, and requests to it over real sockets."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any, NamedTuple

import uvicorn

from dialog.serving.app import Service
from dialog.serving.server import listening_socket, uvicorn_config

CHAT = "/v1/chat/completions"


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.text)
        return content

    @property
    def error(self) -> str:
        return str(self.json["error"]["message"])

    @property
    def reply(self) -> str:
        return str(self.json["choices"][0]["message"]["content"])

    @property
    def events(self) -> list[Any]:
        """The chunks of a stream, which has to end with [DONE]."""
        lines = [line.removeprefix("data: ") for line in self.text.split("\n\n") if line]
        assert lines.pop() == "[DONE]"
        return [json.loads(line) for line in lines]


class Client(NamedTuple):
    service: Service
    port: int

    def send(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, {"Content-Type": "application/json", **names})
        response = connection.getresponse()
        answer = Answer(response.status, dict(response.headers), response.read().decode())
        connection.close()
        return answer

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, **headers)

    def post(self, path: str, body: object, **headers: str) -> Answer:
        return self.send("POST", path, json.dumps(body).encode(), **headers)

    def chat(self, *turns: str, **fields: object) -> Answer:
        return self.post(CHAT, {"messages": messages(*turns), **fields})


def messages(*turns: str) -> list[dict[str, str]]:
    """The turns as messages, the last one of the user."""
    roles = ("user", "assistant")
    return [
        {"role": roles[(len(turns) - 1 - number) % 2], "content": text}
        for number, text in enumerate(turns)
    ]


@contextmanager
def serving(service: Service) -> Iterator[Client]:
    """Serve on a free port until the end of the block."""
    with listening_socket("127.0.0.1", 0) as listener:
        server = uvicorn.Server(uvicorn_config(service, 75))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield Client(service, listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join()
