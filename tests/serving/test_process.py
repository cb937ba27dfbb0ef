"""``dialog serve`` as a real process, and what it does not start with."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest
import uvicorn
from client import CHAT, messages

from dialog.cli.serve import serve as serve_command
from dialog.errors import UserError
from dialog.runs.run import Run
from dialog.serving.server import is_local, listening_socket, serve


def test_signal_ends_the_service_after_the_response_in_progress(
    trained: Callable[[str], Path],
) -> None:
    long = ["generation.min_length=100", "generation.max_length=100"]
    command = [sys.executable, "-m", "dialog", "serve", str(trained("lstm")), *long, "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as service:
        assert service.stdout is not None
        assert service.stderr is not None
        address, _, _ = service.stdout.readline().partition(" serves ")
        body = json.dumps({"messages": messages("Hi ."), "stream": True})
        with closing(HTTPConnection(address.removeprefix("http://"), timeout=60)) as connection:
            connection.request("POST", CHAT, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            assert response.readline().startswith(b"data: ")
            service.send_signal(signal.SIGTERM)
            text = response.read().decode()
        *chunks, end = text.strip().split("\n\n")
        assert len(chunks) > 5
        assert end == "data: [DONE]"
        assert service.wait(timeout=60) == 143
        assert service.stderr.read() == "stopped by SIGTERM\n"


def test_other_machines_need_a_key(run: Run) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "service.example"):
        assert not is_local(host)
        with pytest.raises(
            UserError,
            match=f"--host {host}: other machines can reach it; set DIALOG_TOKEN to a key",
        ):
            serve([run], host, 0, "", keep_alive=75)
    with pytest.raises(UserError, match="DIALOG_TOKEN: use ASCII characters only"):
        serve([run], "0.0.0.0", 0, "clé", keep_alive=75)
    assert all(map(is_local, ("localhost", "127.0.0.1", "127.1.2.3", "::1")))


def test_port_in_use_and_unknown_host() -> None:
    with listening_socket("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(
            UserError, match=f"127.0.0.1:{port}: Address already in use; choose another --host or"
        ):
            listening_socket("127.0.0.1", port)
    for host in ("no.invalid", "a" * 64):
        with pytest.raises(UserError, match=rf"{host}:1: .*; choose another --host or --port"):
            listening_socket(host, 1)


@pytest.mark.parametrize(("options", "seconds"), [([], 75), (["--keep-alive", "7"], 7)])
def test_time_of_an_idle_connection(
    trained: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    seconds: int,
) -> None:
    """Proxies and clients reuse a connection for up to 60 s; one that closes it sooner makes them
    fail.
    """
    configs = []
    monkeypatch.setattr(
        uvicorn.Server, "run", lambda server, sockets: configs.append(server.config)
    )
    serve_command.main([str(trained("lstm")), "--port", "0", *options], standalone_mode=False)
    assert [config.timeout_keep_alive for config in configs] == [seconds]


@pytest.mark.parametrize("package", ["uvicorn", "starlette", "pydantic"])
def test_missing_package_names_the_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [
        name for name in sys.modules if name.startswith(("dialog.serving", f"{package}."))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"serve needs {package}; run pip install -e '.\[serve\]'"):
        serve_command.main(["run"], standalone_mode=False)
