"""Chromium, driven by its own protocol over a pipe: pages, their workers' requests, screenshots."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from browser import CHROMIUM

LOADED = "Page.loadEventFired"
QUIET = ("--disable-gpu", "--disable-background-networking", "--no-first-run")


class Page:
    """A page of a browser."""

    def __init__(self, reading: int, writing: int) -> None:
        self.reading = os.fdopen(reading, "rb", buffering=0)
        self.writing = os.fdopen(writing, "wb", buffering=0)
        self.rest = b""
        self.count = 0
        self.events: list[dict[str, Any]] = []
        self.session: str | None = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        self.send(
            "Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=False, flatten=True
        )

    def close(self) -> None:
        self.reading.close()
        self.writing.close()

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the result of a command; events that come before it are kept."""
        self.count += 1
        message: dict[str, Any] = {"id": self.count, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        self.writing.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.count:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.keep(answer)

    def read(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            part = self.reading.read(2**20)
            assert part, "the browser has ended"
            self.rest += part
        line, _, self.rest = self.rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def keep(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        if event.get("method") == "Target.attachedToTarget":  # a worker, whose requests count too
            session = event["params"]["sessionId"]
            message = {"id": -1, "method": "Network.enable", "sessionId": session}
            self.writing.write(json.dumps(message).encode() + b"\0")

    def open(self, address: str) -> None:
        """Load a page, up to its load event."""
        before = len(self.events)
        self.send("Page.navigate", url=address)
        while not any(event.get("method") == LOADED for event in self.events[before:]):
            self.keep(self.read())

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression, or that of its promise."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until an expression is true."""
        self.evaluate(
            "(async () => { for (let wait = 0; wait < 2400; wait++) { if ("
            + condition
            + ") return;"
            " await new Promise((done) => setTimeout(done, 25)); } throw new Error("
            f"`never: {condition}`); }})()"
        )

    def type(self, text: str) -> None:
        """Type a text into the element in focus."""
        self.send("Input.insertText", text=text)

    def press(self, key: str, **more: Any) -> None:
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, **more)

    def look(self, path: Path, width: int, *, dark: bool = False) -> None:
        """Write a screenshot."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", features=features)
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=844,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        image = self.send("Page.captureScreenshot", captureBeyondViewport=False)["data"]
        path.write_bytes(base64.b64decode(image))

    def requests(self) -> list[str]:
        """Return the addresses that page and workers have requested, except texts of their own."""
        addresses = [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]
        return [address for address in addresses if not address.startswith(("blob:", "data:"))]

    def problems(self) -> list[str]:
        """Return exceptions and errors of the page's log."""
        exceptions = [
            str(event["params"]["exceptionDetails"])
            for event in self.events
            if event.get("method") == "Runtime.exceptionThrown"
        ]
        entries = [
            event["params"]["entry"]
            for event in self.events
            if event.get("method") == "Log.entryAdded"
        ]
        return exceptions + [entry["text"] for entry in entries if entry["level"] == "error"]


@contextmanager
def browsing(folder: Path) -> Iterator[Page]:
    """Start a browser and yield its page; ``folder`` has its profile."""
    assert CHROMIUM is not None
    command = [CHROMIUM, "--headless", "--no-sandbox", *QUIET]
    command += [f"--user-data-dir={folder / 'profile'}", "--remote-debugging-pipe", "about:blank"]
    to_browser, own_writing = os.pipe()
    own_reading, from_browser = os.pipe()
    # the browser reads from 3 and writes to 4
    shell = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
    with subprocess.Popen(
        ["bash", "-c", shell, "bash", *command],
        pass_fds=(to_browser, from_browser),
        stderr=subprocess.DEVNULL,
    ) as browser:
        os.close(to_browser)
        os.close(from_browser)
        page = Page(own_reading, own_writing)
        try:
            yield page
        finally:
            browser.kill()
            page.close()
