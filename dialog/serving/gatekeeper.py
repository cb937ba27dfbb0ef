"""Checks of every request: length, name of the host, origin, key; and their turns."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from hmac import compare_digest
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dialog.serving.replies import RequestError

HEALTH = "/healthz"
MOST_BYTES = 64 * 1024
"""Size of a body."""
SURPLUS = "surplus"
"""Key of a connection's state; True if only `HEALTH` is answered, since too many connections are
open.
"""
SAFE_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Turnstile:
    """Lets coroutines continue one per pass of the event loop, in the order of their arrival."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def turn(self) -> None:
        """Wait for the turn."""
        async with self._lock:
            await asyncio.sleep(0)


class Gatekeeper:
    """Rejects requests from other web pages, under other names, or without the key; adds headers to
    every response.

    Requests start, and responses are sent, one per pass of the event loop, except for those of
    `HEALTH`, which thus never wait behind many others.

    Args:
        app: The service.
        token: Key that requests need as a bearer token; "" for none.
        hosts: Names of this host that are accepted; empty for any. Other names come from a page
            that has pointed its own name at this machine (DNS rebinding), which does not know a
            key, or from a proxy.
        public: Paths that need no key.
    """

    def __init__(
        self, app: ASGIApp, *, token: str, hosts: Collection[str], public: Collection[str]
    ) -> None:
        self.app = app
        self.token = token
        self.hosts = hosts
        self.public = public
        self.requests = Turnstile()
        self.responses = Turnstile()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with an error."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        surplus = scope.get("state", {}).get(SURPLUS, False)
        path = scope["path"]
        headers = SAFE_HEADERS | ({"Connection": "close"} if surplus else {})

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                if path != HEALTH:
                    await self.responses.turn()
                MutableHeaders(scope=message).update(headers)
            await send(message)

        if path != HEALTH:
            await self.requests.turn()
        error = self._error(Headers(scope=scope), path)
        if surplus and path != HEALTH:
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
