"""Streams of text from an engine's thread to the event loop and to clients.

A service of many clients spends most of its time here: for each token of each of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.responses import Response
from starlette.types import Receive, Scope, Send


class GrowingText:
    """Text of a response in progress for one reader; used on the event loop only."""

    def __init__(self) -> None:
        self._new = ""
        self._ended = False
        self._changed = asyncio.Event()

    def add(self, text: str) -> None:
        """Add text."""
        self._new += text
        self._changed.set()

    def end(self) -> None:
        """Let the reader know that no text follows."""
        self._ended = True
        self._changed.set()

    async def read(self) -> str:
        """Wait for text; return all that has been added, or "" at the end."""
        await self._changed.wait()
        text = self._new
        self._new = ""
        if not self._ended:
            self._changed.clear()
        return text


class EventStream(Response):
    """Response of server-sent events.

    It does not watch the client, unlike Starlette's: the events have to end soon after the client
    has left.
    """

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[str]) -> None:
        self.events = events
        self.status_code = 200
        self.background = None
        self.init_headers()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for text in self.events:
            await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
