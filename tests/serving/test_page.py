"""The web page: its policy, and a chat in a real browser, which reports to the service."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from browser import CHROMIUM, needs_chromium
from client import Client, serving
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dialog.runs.run import Run
from dialog.serving.app import Service, chat_page

STEPS = """
<script>
const problems = [];
addEventListener("error", (event) => problems.push(event.message));
addEventListener("securitypolicyviolation", (event) => problems.push(event.violatedDirective));
const one = (selector) => document.querySelector(selector);
const items = () => [...document.querySelectorAll("#turns li")].map((item) => item.textContent);
const texts = () => items().map((text) => text.replace(/^(You|Model): /, ""));
const until = async (condition) => {
  for (let wait = 0; !condition() && wait < 1200; wait++) await new Promise((done) => setTimeout(done, 25));
};
const say = async (line) => {
  one("#text").value = line;
  one("#send").click();
  await until(() => one("#send").textContent === "Send");
};
addEventListener("load", async () => {
  const result = await (async () => { STEPS })().catch((error) => problems.push(String(error)));
  fetch("/report", {
    method: "POST", headers: { Authorization: "Bearer secret" }, body: JSON.stringify({ result, problems }),
  });
});
</script>
"""
HEAD = "<head>\n"
HOSTILE = "<img src=x onerror=problems.push(1)> & Anna ?"


def in_browser(client: Client, steps: str, folder: Path, *more: str) -> list[Any]:
    """Return the list that asynchronous `steps` return on the page of a service."""
    reports: Queue[Any] = Queue()

    async def report(request: Request) -> Response:
        reports.put(await request.json())
        return Response()

    service = client.service
    service.starlette.router.routes.append(Route("/report", report, methods=["POST"]))
    # a policy holds for what follows
    service.page = service.page.replace(HEAD, HEAD + STEPS.replace("STEPS", steps))
    assert CHROMIUM is not None
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        *more,
    ]
    address = f"http://127.0.0.1:{client.port}/"
    with subprocess.Popen(
        [CHROMIUM, *options, f"--user-data-dir={folder / 'profile'}", address],
        stderr=subprocess.DEVNULL,
    ) as browser:
        try:
            content = reports.get(timeout=60)
        finally:
            browser.kill()
    assert content["problems"] == []
    result: list[Any] = content["result"]
    return result


@needs_chromium
def test_chat_with_maps_and_hostile_text(client: Client, run: Run, tmp_path: Path) -> None:
    steps = f"""
    await say("Hi .");
    await say({json.dumps(HOSTILE)});
    await until(() => one("#maps").srcdoc.includes("Anna"));
    return [texts(), one("#maps").srcdoc];
    """
    turns, maps = in_browser(client, steps, tmp_path)
    first = run.respond(["Hi ."]).text
    assert turns == ["Hi .", first, HOSTILE, run.respond(["Hi .", first, HOSTILE]).text]
    assert "Maps</h2>" in maps
    assert "<img" not in maps


@pytest.mark.endurance
@needs_chromium
def test_error_keeps_the_line_and_a_new_chat_is_empty(run: Run, tmp_path: Path) -> None:
    steps = """
    one("#key").value = "wrong";
    await say("Hi .");
    const before = [texts(), one("#text").value, one("#error").textContent];
    one("#key").value = "secret";
    await say("Hi .");
    const after = [texts().length, one("#text").value, one("#error").hidden];
    one("#new").click();
    return [before, after, texts(), one("#maps").hidden];
    """
    with serving(Service(run, token="secret")) as client:
        before, after, turns, hidden = in_browser(client, steps, tmp_path)
    assert before == [[], "Hi .", "send the key as `Authorization: Bearer KEY`"]
    assert after == [2, "", True]
    assert (turns, hidden) == ([], True)


@pytest.mark.endurance
@needs_chromium
def test_a_phone_shows_the_composer_below_the_last_turn(client: Client, tmp_path: Path) -> None:
    steps = """
    for (let turn = 0; turn < 12; turn++) await say("Hi .");
    const [line, last] = ["#line", "#turns li:last-child"].map((part) => one(part).getBoundingClientRect());
    return [innerHeight - line.bottom, line.top - last.bottom, items().map((text) => text.split(":")[0])];
    """
    below, above, speakers = in_browser(client, steps, tmp_path, "--window-size=390,844")
    assert below >= 0
    assert above >= 0
    assert speakers == ["You", "Model"] * 12


@pytest.mark.endurance
@needs_chromium
def test_a_service_that_is_gone_is_explained(client: Client, tmp_path: Path) -> None:
    """At once, and during a reply; browsers have different words for it, such as Failed to
    fetch.
    """
    steps = """
    const { fetch } = window;
    const failure = new TypeError("Failed to fetch");
    const results = [];
    for (const gone of [
      () => Promise.reject(failure),
      () => Promise.resolve(new Response(new ReadableStream({ pull: (stream) => stream.error(failure) }))),
    ]) {
      window.fetch = gone;
      await say("Hi .");
      results.push([texts(), one("#text").value, one("#error").textContent, one("#error").hidden]);
    }
    window.fetch = fetch;
    return results;
    """
    for turns, line, error, hidden in in_browser(client, steps, tmp_path):
        assert (turns, line, hidden) == ([], "Hi .", False)
        assert "service" in error
        assert "fetch" not in error


def test_name_of_a_run_is_text() -> None:
    page = chat_page("</title><script>alert(1)</script>\x1b", needs_key=False)
    assert page.count("<script>") == 1
    assert "\x1b" not in page
    assert 'id="key"' not in page
