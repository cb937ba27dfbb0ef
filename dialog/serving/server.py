"""Listen on a port until a signal; slow clients are disconnected."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from errno import errorcode
from ipaddress import ip_address
from operator import itemgetter
from pathlib import Path

import click
import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from dialog.errors import UserError
from dialog.escaping import one_line, to_json
from dialog.runs.run import Run
from dialog.serving.app import Service
from dialog.serving.engine import DEFAULT_LIMITS, LoadLimits
from dialog.serving.gatekeeper import SURPLUS, AnsweredRequest
from dialog.serving.votes import VoteFile

TOKEN = "DIALOG_TOKEN"
"""Environment variable with the key of the service."""
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
REQUEST_SECONDS = 10
READ_SECONDS = 30
IDLE_SECONDS = 5
DRAIN_SECONDS = 10
"""Time for a complete request, for a client that does not read, for the next request where
connections are scarce, and for responses in progress at the end.
"""
MOST_CONNECTIONS = 512


class TimedProtocol(H11Protocol):
    """HTTP protocol that closes a connection whose client sends or reads too slowly.

    Beyond `MOST_CONNECTIONS`, a new connection replaces the one that has waited longest for its
    next request. If none has waited for `IDLE_SECONDS`, it is a surplus one (see `SURPLUS`).

    uvicorn itself waits for ever for the first request, for the rest of a request, and for a client
    that does not read.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time of the first request."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS and not self._replaces_another():
            self.app_state = {**self.app_state, SURPLUS: True}
        self._start_timer(REQUEST_SECONDS)

    def data_received(self, data: bytes) -> None:
        """Start the time of the next request, or end it when the request is complete."""
        if self._timer is None:
            self._start_timer(REQUEST_SECONDS)
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY) and not self.flow.write_paused:
            self._stop_timer()

    def pause_writing(self) -> None:
        """Start the time in which the client has to read."""
        super().pause_writing()
        self._stop_timer()
        self._start_timer(READ_SECONDS)

    def resume_writing(self) -> None:
        """End the time in which the client has to read."""
        super().resume_writing()
        self._stop_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """End all times."""
        super().connection_lost(exc)
        self._stop_timer()

    def _replaces_another(self) -> bool:
        """Close the connection that has waited longest for its next request; return False if none
        waits for long.
        """
        latest = self.loop.time() + self.timeout_keep_alive - IDLE_SECONDS
        waiting = [
            (timer.when(), connection)
            for connection in self.connections
            if isinstance(connection, TimedProtocol)
            and (timer := connection.timeout_keep_alive_task) is not None
            and timer.when() < latest
            and not connection.transport.is_closing()
        ]
        if not waiting:
            return False
        _, longest = min(waiting, key=itemgetter(0))
        longest.timeout_keep_alive_handler()
        return True

    def _start_timer(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def is_local(host: str) -> bool:
    """Return True if only this machine can reach the host."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on the port; 0 takes any free one.

    Raises:
        UserError: unknown host, or a port that cannot be used.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = os.strerror(error.errno or 0) if error.errno in errorcode else error.strerror
        raise UserError(f"{host}:{port}: {reason}; choose another --host or --port") from error
    except UnicodeError as error:
        raise UserError(
            f"{host}:{port}: not the name of a host; choose another --host or --port"
        ) from error


def uvicorn_config(service: Service, keep_alive: int) -> uvicorn.Config:
    """Return the settings of the HTTP server; `keep_alive` as in `serve`."""
    return uvicorn.Config(
        service.app,
        http=TimedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=keep_alive,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )


def log_line(request: AnsweredRequest) -> None:
    """Write a request to the standard error as a line of JSON; it has no text of the request."""
    content = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "id": request.name,
        "method": request.method,
        "route": request.endpoint,
        "status": request.status,
        "seconds": round(request.seconds, 4),
    }
    click.echo(to_json(content), err=True)


def serve(
    runs: Sequence[Run],
    host: str,
    port: int,
    token: str,
    *,
    keep_alive: int,
    limits: LoadLimits = DEFAULT_LIMITS,
    votes: Path | None = None,
    openings: int = 0,
    logs: bool = False,
) -> None:
    """Serve runs until SIGINT or SIGTERM; responses in progress are completed.

    A connection that waits `keep_alive` seconds for its next request is closed. Votes of the web
    page are appended to the file ``votes``; the page offers ``openings`` first turns of each run's
    validation split. With ``logs``, each request is a line of the standard error.

    Raises:
        UserError: other machines could reach the service without a key, an invalid key, or the port
            cannot be used.
    """
    token = token.strip()
    if not token.isascii():
        raise UserError(f"{TOKEN}: use ASCII characters only")
    if not is_local(host) and not token:
        raise UserError(
            f"--host {host}: other machines can reach it; set {TOKEN} to a key that requests must"
            " send"
        )
    with listening_socket(host, port) as listener:
        names = () if token else tuple(dict.fromkeys((*LOCAL_NAMES, host)))
        log = log_line if logs else None
        service = Service(
            *runs,
            token=token,
            hosts=names,
            limits=limits,
            votes=None if votes is None else VoteFile(votes),
            openings=openings,
            log=log,
        )
        shown = f"[{host}]" if ":" in host else host
        click.echo(
            one_line(
                f"http://{shown}:{listener.getsockname()[1]} serves {', '.join(service.served)};"
                " Ctrl-C ends it"
            )
        )
        # a full collection of the libraries' objects would hold Python's lock for most of a second
        gc.freeze()
        try:
            uvicorn.Server(uvicorn_config(service, keep_alive)).run(sockets=[listener])
        finally:
            gc.unfreeze()
