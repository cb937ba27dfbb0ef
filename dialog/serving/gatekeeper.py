"""Checks of every request: length, name of the host, origin, key; and their turns."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Collection
from hmac import compare_digest
from secrets import token_hex
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dialog.serving.replies import RequestError

HEALTH = "/healthz"
READY = "/readyz"
PROBES = (HEALTH, READY)
"""Paths that never wait behind other requests."""
REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
"""Ids of requests that are taken over from clients; others are replaced."""
MOST_BYTES = 64 * 1024
"""Size of a body."""
TOGETHER = 4
"""Requests that start in a pass of the event loop: their clients wait for few passes, and `PROBES`
for few requests.
"""
SURPLUS = "surplus"
"""Key of a connection's state; True if only `PROBES` are answered, since too many connections are
open.
"""
SAFE_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class AnsweredRequest(NamedTuple):
    """A request that has been answered, without any text of it."""

    name: str  # the request's id
    method: str
    endpoint: str  # name of the function that has answered; "" if it was none
    status: int  # 0 if the client has left before
    seconds: float


class Turnstile:
    """Lets some coroutines continue per pass of the event loop, in the order of their arrival."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(TOGETHER)

    async def turn(self) -> None:
        """Wait for the turn."""
        async with self._places:
            await asyncio.sleep(0)


class Gatekeeper:
    """Rejects requests from other web pages, under other names, or without the key; adds headers to
    every response.

    Requests start, and responses are sent, `TOGETHER` per pass of the event loop. Those of `PROBES`
    do not wait for a turn, so never behind many others. Every response has the id of its request.

    Args:
        app: The service.
        token: Key that requests need as a bearer token; "" for none.
        hosts: Names of this host that are accepted; empty for any. Other names come from a page
            that has pointed its own name at this machine (DNS rebinding), which does not know a
            key, or from a proxy.
        public: Paths that need no key.
        answered: Called after each request.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str,
        hosts: Collection[str],
        public: Collection[str],
        answered: Callable[[AnsweredRequest], None] = lambda _: None,
    ) -> None:
        self.app = app
        self.token = token
        self.hosts = hosts
        self.public = public
        self.answered = answered
        self.requests = Turnstile()
        self.responses = Turnstile()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with an error."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begin = time.perf_counter()
        given = Headers(scope=scope).get("x-request-id", "")
        name = given if REQUEST_ID.fullmatch(given) else token_hex(8)
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-ID"] = name
            await send(message)

        try:
            await self._pass(scope, receive, send_with_id)
        finally:
            endpoint = getattr(scope.get("endpoint"), "__name__", "")
            seconds = time.perf_counter() - begin
            self.answered(AnsweredRequest(name, scope["method"], endpoint, status, seconds))

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        surplus = scope.get("state", {}).get(SURPLUS, False)
        path = scope["path"]
        headers = SAFE_HEADERS | ({"Connection": "close"} if surplus else {})

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                if path not in PROBES:
                    await self.responses.turn()
                MutableHeaders(scope=message).update(headers)
            await send(message)

        if path not in PROBES:
            await self.requests.turn()
        error = self._error(Headers(scope=scope), path)
        if surplus and path not in PROBES:
            error = RequestError(503, "too many connections; try again later")
        if error is None:
            await self.app(scope, receive, send_with_headers)
            return
        response = error.response()
        response.headers["Connection"] = "close"
        await response(scope, receive, send_with_headers)

    def _error(self, headers: Headers, path: str) -> RequestError | None:
        if "content-length" in headers and "transfer-encoding" in headers:
            return RequestError(400, "the length of the body is given twice")
        host = headers.get("host", "")
        origin = headers.get("origin")
        if self.hosts and host_name(host) not in self.hosts:
            return RequestError(403, f"host {host!r}: use {' or '.join(self.hosts)}")
        if origin is not None and network_location(origin) != host.lower():
            return RequestError(
                403, f"origin {origin!r}: pages of other hosts cannot use this service"
            )
        if self.token and path not in self.public:
            scheme, _, key = headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not compare_digest(
                key.strip().encode(), self.token.encode()
            ):
                return RequestError(
                    401, "send the key as `Authorization: Bearer KEY`", code="invalid_api_key"
                )
        return None


def host_name(host: str) -> str:
    """Return the name in a Host header, without the port; "" if it is invalid."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def network_location(origin: str) -> str:
    """Return host and port of an Origin header; "" if it is invalid."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


async def read_body(request: Request) -> bytes:
    """Return the body of a request.

    Raises:
        RequestError: it is not declared as JSON, or longer than `MOST_BYTES`.
    """
    media_type, _, _ = request.headers.get("content-type", "").partition(";")
    if media_type.strip().lower() != "application/json":
        raise RequestError(415, "send JSON, with `Content-Type: application/json`")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BYTES:
            raise RequestError(413, f"the body is longer than {MOST_BYTES:,} bytes")
    return bytes(body)
