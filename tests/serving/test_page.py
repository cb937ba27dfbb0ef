"""The web page in a real browser, on a real service of two tiny runs."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import needs_chromium
from client import Client, serving
from devtools import Page, browsing

from dialog.runs.load import load
from dialog.runs.run import Run
from dialog.serving.app import Service, studio_page
from dialog.serving.votes import VoteFile

HOSTILE = "<img src=x onerror=alert(1)></script> & \u202e\u0007 </s> 😀 é"
READY = "!byId('studio').hidden"
ANSWERED = "!running && chat.exchanges.length === {} && turns.children.length === {}"
DRAWN = "turns.lastChild.querySelectorAll('.reading').length === {}"
TEXTS = "[...turns.querySelectorAll('.user [dir], .reply > .text')].map((one) => one.textContent)"


@pytest.fixture(scope="module")
def pair(run: Run, trained: Callable[[str], Path]) -> list[Run]:
    return [run, load(trained("transformer"), device="cpu")]


@pytest.fixture
def studio(pair: list[Run], tmp_path: Path) -> Iterator[Client]:
    votes = VoteFile(tmp_path / "votes.jsonl")
    with serving(Service(*pair, hosts=("127.0.0.1",), votes=votes, openings=2)) as client:
        yield client


def opened(page: Page, client: Client, fragment: str = "") -> None:
    page.open("about:blank")  # the same page with another fragment would not be loaded again
    page.open(f"http://127.0.0.1:{client.port}/{fragment}")
    page.until(READY)


def say(page: Page, line: str, count: int) -> None:
    """Type a line, and wait until the chat has a number of exchanges."""
    page.evaluate("byId('text').focus()")
    page.type(line)
    page.press("Enter", windowsVirtualKeyCode=13)
    page.until(ANSWERED.format(count, count))


@needs_chromium
def test_chat_of_two_runs(studio: Client, pair: list[Run], tmp_path: Path) -> None:
    """Replies, attention, candidates and hostile text; the chat is there after a reload, and in a
    transcript that `respond` reads.
    """
    with browsing(tmp_path) as page:
        page.look(tmp_path / "blank.png", 1280)
        opened(page, studio)
        assert page.evaluate("byId('openings').children.length") == 2
        say(page, "Hi .", 1)
        say(page, HOSTILE, 2)
        first = [run.respond(["Hi ."]).text for run in pair]
        contexts = [["Hi .", text, HOSTILE] for text in first]
        second = [run.respond(turns).text for run, turns in zip(pair, contexts, strict=True)]
        assert page.evaluate(TEXTS) == ["Hi .", *first, HOSTILE, *second]
        assert page.evaluate("document.querySelectorAll('img').length") == 0
        page.until(DRAWN.format(2))
        check_attention(page, pair[1], contexts[1], second[1])
        page.evaluate("[...turns.lastChild.querySelectorAll('.tools button')].at(-1).click()")
        page.until("turns.lastChild.querySelector('.candidates')")
        best = pair[1].respond(contexts[1], {"name": "beam", "width": 5, "candidates": 5})
        found = "[...turns.lastChild.querySelectorAll('.candidates .text')].map((one) => one.textContent)"
        assert page.evaluate(found) == [one.text for one in best.candidates]
        address = page.evaluate("location.href")
        lines = page.evaluate("transcriptOf(chat)").splitlines()
        assert [json.loads(line)["context"] for line in lines[2:]] == contexts
        assert [json.loads(line)["response"] for line in lines[2:]] == second
        opened(page, studio, address[address.index("#") :])
        assert page.evaluate(TEXTS) == ["Hi .", *first, HOSTILE, *second]
        assert all(f":{studio.port}/" in one for one in page.requests() if one != "about:blank")
        assert page.problems() == []


def check_attention(page: Page, run: Run, context: list[str], reply: str) -> None:
    """The mean of a layer's heads, over the tokens of the reading; the keys choose a token."""
    reading = run.attention(context, reply)
    (last,) = [one for one in reading["maps"] if one["kind"] == "cross"][-1:]
    place = len(reading["context_tokens"]) - 1
    title = "turns.lastChild.querySelectorAll('.reading')[1].querySelector('.heat tbody tr td:last-child').title"
    share = 100 * float(last["weights"].mean(0)[0][place])
    shown = re.search(r": ([\d.]+) %$", page.evaluate(title))
    assert shown is not None
    assert float(shown[1]) == pytest.approx(share, abs=0.51)
    buttons = "[...turns.lastChild.querySelectorAll('.tokens button')]"
    page.evaluate(f"{buttons}[0].focus()")
    page.press("ArrowRight", windowsVirtualKeyCode=39)
    assert page.evaluate(f"{buttons}.map((one) => one.ariaPressed).indexOf('true')") == 1


@needs_chromium
def test_blind_chat_and_its_votes(studio: Client, tmp_path: Path) -> None:
    """No name, and no part that tells the models apart, before they are shown; the chat continues
    with the reply that won.
    """
    with browsing(tmp_path) as page:
        opened(page, studio)
        page.evaluate("byId('new-blind').click()")
        page.evaluate("byId('rater').value = 'Ann'")
        say(page, "Hi .", 1)
        labels = "[...turns.querySelectorAll('h3')].map((one) => one.textContent)"
        assert page.evaluate(labels) == ["A", "B"]
        assert page.evaluate("turns.querySelectorAll('.tools:not([hidden])').length") == 0
        page.press("2")
        page.until("chat.exchanges[0].choice === 'b'")
        say(page, "Bye .", 2)
        page.evaluate("document.querySelector('[data-choice=tie]').click()")
        page.until("chat.exchanges[1].choice === 'tie'")
        lines = (tmp_path / "votes.jsonl").read_text(encoding="utf-8").splitlines()
        votes = [json.loads(line) for line in lines]
        assert [vote["choice"] for vote in votes] == ["b", "tie"]
        assert {vote["rater"] for vote in votes} == {"Ann"}
        assert votes[1]["context"] == ["Hi .", votes[0]["responses"][1], "Bye ."]
        for vote in votes:
            assert sorted(vote["models"]) == sorted(studio.service.served)
            assert [search["name"] for search in vote["searches"]] == ["greedy", "greedy"]
        page.evaluate("byId('reveal').click()")
        assert page.evaluate(labels) == [*votes[0]["models"], *votes[1]["models"]]
        assert votes[0]["models"][1] in page.evaluate("byId('tally').textContent")
        assert page.problems() == []


@pytest.mark.endurance
@needs_chromium
def test_chats_are_named_deleted_restored_and_linked(studio: Client, tmp_path: Path) -> None:
    listed = "[...byId('list').querySelectorAll('button')].map((one) => one.textContent)"
    with browsing(tmp_path) as page:
        opened(page, studio)
        for line in ("Hi .", "Bye ."):
            page.evaluate("byId('new').click()")
            say(page, line, 1)
        page.evaluate("byId('name').value = '<b>'; byId('name').dispatchEvent(new Event('change'))")
        assert page.evaluate(listed) == ["<b>", "Hi ."]
        link = page.evaluate("linkOf(chat)")
        page.evaluate("byId('delete').click()")
        assert page.evaluate(listed) == ["Hi ."]
        page.evaluate("byId('undo').click()")
        assert page.evaluate(listed) == ["<b>", "Hi ."]
        page.evaluate("localStorage.clear()")
        opened(page, studio, link[link.index("#") :])
        page.until("chat.exchanges.length === 1")
        assert page.evaluate(listed) == ["<b>"]
        assert page.evaluate("location.hash").startswith("#chat=")
        for damaged in ("#copy=", "#copy=@", f"#copy={'A' * 400}", "#chat=none"):
            opened(page, studio, damaged)
            page.until("location.hash === ''")
            assert page.evaluate("chat.exchanges.length") == 0
        page.evaluate("localStorage.setItem('dialog-chats', '[null, {\"exchanges\": [5]}, 1]')")
        opened(page, studio)
        assert page.evaluate(listed) == []
        assert page.problems() == []


FAILURES: dict[str, str] = {
    "gone": "(path, ...more) => Promise.reject(new TypeError('Failed to fetch'))",
    "ends": "() => Promise.resolve(new Response(new ReadableStream({ start: (one) => one.close() })))",
    "breaks": "() => Promise.resolve(new Response(new ReadableStream({ pull: (one) => one.error(new TypeError('x')) })))",
}


@pytest.mark.endurance
@needs_chromium
def test_failures_keep_the_line(studio: Client, tmp_path: Path) -> None:
    """Of all models: the line is back. Of one: its reply can be asked for again."""
    with browsing(tmp_path) as page:
        opened(page, studio)
        page.evaluate("globalThis.real = fetch; byId('text').focus()")
        for failure in FAILURES.values():
            page.evaluate(f"globalThis.fetch = {failure}; byId('text').value = ''")
            page.type("Hi .")
            page.press("Enter", windowsVirtualKeyCode=13)
            page.until("!running && !byId('error').hidden")
            state = "[chat.exchanges.length, turns.children.length, text.value]"
            assert page.evaluate(state) == [0, 0, "Hi ."]
            assert "service" in page.evaluate("byId('error').textContent")
        name = json.dumps(next(iter(studio.service.served)))
        page.evaluate(
            f"globalThis.fetch = (path, request) => request?.body?.includes({name})"
            " ? Promise.reject(new TypeError('Failed to fetch')) : real(path, request)"
        )
        page.evaluate("byId('text').value = ''")
        say(page, "Hi .", 1)
        assert page.evaluate("chat.exchanges[0].replies.length") == 1
        page.evaluate("globalThis.fetch = real; turns.querySelector('.error button').click()")
        page.until("chat.exchanges[0].replies.length === 2")
        models = page.evaluate("chat.exchanges[0].replies.map(({ model }) => model)")
        assert models == [*studio.service.served]


@pytest.mark.endurance
@needs_chromium
def test_a_slow_reply_is_shown_as_it_comes_and_can_be_stopped(
    studio: Client, tmp_path: Path
) -> None:
    """What there is of it is kept; without any, the line is back."""
    with browsing(tmp_path) as page:
        opened(page, studio)
        page.evaluate(
            "globalThis.stream = (content) => (path, { signal }) => Promise.resolve(new Response("
            "new ReadableStream({ start(one) {"
            " if (content) one.enqueue(new TextEncoder().encode(`data: ${JSON.stringify("
            "{ choices: [{ delta: { content } }] })}\n\n`));"
            " signal.addEventListener('abort', () => one.error(signal.reason)); } })))"
        )
        for content in ("", "Sure"):
            page.evaluate(f"fetch = stream('{content}'); text.value = ''; text.focus()")
            page.type("Hi .")
            page.press("Enter", windowsVirtualKeyCode=13)
            page.until("running && turns.querySelectorAll('[aria-busy=true]').length === 2")
            page.until(f"turns.querySelector('.text').textContent === '{content}'")
            assert page.evaluate("send.textContent") == "Stop"
            page.press("Escape", windowsVirtualKeyCode=27)
            page.until("!running && send.textContent === 'Send'")
            texts = "chat.exchanges.flatMap(({ replies }) => replies.map(({ text }) => text))"
            assert page.evaluate(texts) == [content] * 2 * bool(content)
            assert page.evaluate("text.value") == ("" if content else "Hi .")


@pytest.mark.endurance
@needs_chromium
def test_a_key_is_asked_for(pair: list[Run], tmp_path: Path) -> None:
    with serving(Service(*pair, token="secret")) as client, browsing(tmp_path) as page:
        page.open(f"http://127.0.0.1:{client.port}/")
        page.until("!byId('lock').hidden")
        assert pair[0].name not in page.evaluate("document.documentElement.textContent")
        for key in ("wrong", "secret"):
            page.evaluate(f"byId('key').value = '{key}'; byId('lock').requestSubmit()")
            page.until("byId('loading').textContent !== 'Loading …'")
        page.until(READY)
        say(page, "Hi .", 1)
        page.open(f"http://127.0.0.1:{client.port}/")
        page.until(READY)


@pytest.mark.endurance
@needs_chromium
def test_a_phone_has_the_composer_below_the_replies(studio: Client, tmp_path: Path) -> None:
    with browsing(tmp_path) as page:
        page.look(tmp_path / "blank.png", 390)
        opened(page, studio)
        for count in range(1, 7):
            say(page, "Hi .", count)
        boxes = "[...document.querySelectorAll('.composer, #turns > li:last-child .user')].map((one) => { const { top, bottom } = one.getBoundingClientRect(); return [top, bottom]; })"
        line, composer = page.evaluate(boxes)
        assert 0 <= line[0] < line[1] < composer[0] < composer[1] <= 844
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.evaluate("byId('show-list').click()")
        assert page.evaluate("byId('show-list').ariaExpanded") == "true"
        page.evaluate("byId('list').querySelector('button').click()")
        assert page.evaluate("byId('show-list').ariaExpanded") == "false"


def test_a_removed_run_is_named_and_all_go_on(
    trained: Callable[[str], Path], run: Run, tmp_path: Path
) -> None:
    folder = shutil.copytree(trained("transformer"), tmp_path / "transformer")
    with serving(Service(run, load(folder, device="cpu"), hosts=("127.0.0.1",))) as client:
        shutil.rmtree(folder)
        listed: list[dict[str, Any]] = client.get("/runs").json["runs"]
        assert [one["removed"] for one in listed] == [False, True]
        for name in client.service.served:
            assert client.chat("Hi .", model=name, n=2).status == 200
            for form in ("json", "html"):
                body = {"model": name, "context": ["Hi ."], "response": "Hi .", "format": form}
                assert client.post("/attention", body).status == 200


def test_page_has_no_name_and_one_script() -> None:
    page = studio_page(needs_key=False)
    assert page.count("<script>") == 1
    assert 'id="key"' not in page
    assert 'id="key"' in studio_page(needs_key=True)
