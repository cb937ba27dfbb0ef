"""examples/ray_replicas.py: two replicas by Ray Serve, one of which is killed under load."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import URLError

import pytest

ROOT = Path(__file__).parents[2]
PORT = 8173
ADDRESS = f"http://127.0.0.1:{PORT}"


def ask(number: int) -> str:
    """A response; a failed request is repeated, as clients of OpenAI's format do."""
    message = {"role": "user", "content": f"hello {number}"}
    body = json.dumps({"messages": [message], "temperature": 0, "max_tokens": 8}).encode()
    request = urllib.request.Request(
        f"{ADDRESS}/v1/chat/completions", body, {"content-type": "application/json"}
    )
    for attempt in range(5):
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                text: str = json.load(response)["choices"][0]["message"]["content"]
                return text
        except (URLError, ConnectionError):
            time.sleep(0.5 * 2**attempt)
    raise AssertionError(f"request {number} was lost")


def replicas() -> list[int]:
    found = subprocess.run(
        ["pgrep", "-f", "ServeReplica:default"], capture_output=True, text=True, check=False
    )
    return [int(line) for line in found.stdout.split()]


@pytest.fixture
def service(trained: Callable[[str], Path]) -> Iterator[None]:
    pytest.importorskip("fastapi", reason="needs the extra replicas")
    process = subprocess.Popen(
        [sys.executable, ROOT / "examples" / "ray_replicas.py", trained("transformer")],
        env={**os.environ, "PORT": str(PORT), "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    try:
        for _ in range(120):
            time.sleep(1)
            try:
                urllib.request.urlopen(f"{ADDRESS}/readyz", timeout=5).close()
                break
            except (URLError, ConnectionError, TimeoutError):
                assert process.poll() is None
        yield
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(60)


@pytest.mark.endurance
@pytest.mark.usefixtures("service")
def test_no_request_is_lost_with_a_killed_replica() -> None:
    expected = ask(0)
    before = replicas()
    assert len(before) == 2
    with ThreadPoolExecutor(8) as clients:
        answers = [clients.submit(ask, 0) for _ in range(300)]
        while sum(each.done() for each in answers) < 50:
            time.sleep(0.01)
        os.kill(before[0], signal.SIGKILL)
        assert {each.result() for each in answers} == {expected}
    for _ in range(30):
        if len(now := replicas()) == 2 and before[0] not in now:
            return
        time.sleep(1)
    raise AssertionError("no new replica")
