"""The program in a pipe and in a pseudo-terminal."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from program import process
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from dialog.chat.terminal import line_editor
from dialog.cli import main

ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()][0AB]|\r")
TIMEOUT = 40
HELLO = "I will have the soup ."


class Terminal:
    """A chat in a pseudo-terminal of 30 lines and 120 columns."""

    def __init__(self, child: subprocess.Popen[bytes], end: int) -> None:
        self.child, self.end, self.seen = child, end, b""

    def type(self, text: str) -> None:
        os.write(self.end, text.encode())

    def enter(self, line: str, answer: str) -> None:
        """Type a line at the prompt; wait for the answer and the next prompt."""
        self.type(f"{line}\r")
        self.until(answer)
        self.until(">")

    def until(self, text: str) -> str:
        """Return the output up to a text, without escape codes; the editor may move the cursor
        instead of a space.
        """
        wanted = re.compile(rb"\s*".join(map(re.escape, text.encode().split())))
        deadline = time.monotonic() + TIMEOUT
        while not (match := wanted.search(plain := ESCAPES.sub(b"", self.seen))):
            assert time.monotonic() < deadline, f"no {text!r} in {plain[-500:]!r}"
            if select.select([self.end], [], [], 0.2)[0]:
                self.seen += os.read(self.end, 4096)
        self.seen = plain[match.end() :]
        return plain[: match.end()].decode()


@contextmanager
def terminal(*arguments: str) -> Iterator[Terminal]:
    inherited = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    environment = {**inherited, "PROMPT_TOOLKIT_NO_CPR": "1", "TERM": "xterm"}
    end, other = pty.openpty()
    termios.tcsetwinsize(other, (30, 120))
    command = [sys.executable, "-m", "dialog", "chat", *arguments]
    child = subprocess.Popen(
        command, stdin=other, stdout=other, stderr=other, env=environment, start_new_session=True,
        preexec_fn=take_terminal,
    )  # fmt: skip
    os.close(other)
    try:
        yield Terminal(child, end)
    finally:
        child.kill()
        child.wait()
        os.close(end)


def call_soon(function: Callable[[str], None], argument: str) -> None:
    asyncio.get_running_loop().call_later(0.05, function, argument)


def begin_reply(chat: Terminal, tokens: int) -> None:
    """Return during the first reply, which begins with Hallo and has at least so many tokens."""
    chat.until("Ctrl-D ends.")
    chat.until(">")
    limits = f"min_length={tokens}", f"max_length={tokens + 1000}"
    chat.enter(
        f"/set prefix=Hallo {limits[1]} {limits[0]}", f"{limits[0]}, {limits[1]}, prefix=Hallo"
    )
    chat.type(f"{HELLO}\r")
    chat.until("Hallo")


def take_terminal() -> None:
    """Make standard input the terminal of the new session, so that Ctrl-C there interrupts it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_terminal_edits_stops_sets_and_quits(
    trained: Callable[[str], Path], tmp_path: Path
) -> None:
    with terminal(str(trained("lstm"))) as chat:
        before = termios.tcgetattr(chat.end)
        begin_reply(chat, tokens=19000)
        chat.type("\x03")
        chat.until("(stopped)")
        chat.until(">")
        chat.enter("/set prefix= min_length=1 max_length=3", "greedy, max_length=3")
        chat.type("not sent")
        chat.until("not sent")
        chat.type("\x03")
        chat.until(">")
        chat.enter("Hi therx\x7fe .", "Hi there .")
        chat.enter(f"/save {tmp_path / 'chat.jsonl'}", "2 replies saved")
        chat.type("/quit\r")
        assert chat.child.wait(60) == 0
        assert termios.tcgetattr(chat.end) == before
    first, second = [
        json.loads(line) for line in (tmp_path / "chat.jsonl").read_text("utf-8").splitlines()
    ]
    assert first["context"] == [HELLO]
    assert first["response"].startswith("Hallo")
    assert second["context"] == [HELLO, first["response"], "Hi there ."]


@pytest.mark.endurance
def test_typed_text_waits_for_the_end_of_a_reply(trained: Callable[[str], Path]) -> None:
    with terminal(str(trained("lstm"))) as chat:
        before = termios.tcgetattr(chat.end)
        begin_reply(chat, tokens=4000)
        chat.type("/undo\r/quux")
        assert chat.until("/undo").endswith("> /undo")
        chat.until(f"removed: {HELLO}")
        assert chat.until("/quux").endswith("> /quux")
        chat.type(f"\x03{HELLO}\r")
        chat.until("Hallo")
        chat.child.terminate()
        assert chat.child.wait(60) == 143
        assert termios.tcgetattr(chat.end) == before


@pytest.mark.endurance
def test_two_runs_answer_side_by_side(trained: Callable[[str], Path]) -> None:
    with terminal(str(trained("lstm")), str(trained("transformer"))) as chat:
        chat.until(">")
        chat.type(f"{HELLO}\r")
        chat.until("lstm:")
        assert re.search(r"\S {4,}transformer:$", chat.until("transformer:"))
        chat.until(">")
        chat.type("\x04")
        assert chat.child.wait(60) == 0


def test_pipe_gives_one_line_for_each(trained: Callable[[str], Path]) -> None:
    from dialog.runs.load import load

    run = trained("transformer")
    lines = [
        HELLO,
        "/retry",
        "/why",
        "/undo",
        "Hello \x1b[31m",
        "/bad",
        "",
        HELLO,
        "/quit",
        "never read",
    ]
    done = process("chat", str(run), stdin="\n".join(lines))
    first, again, attention, undone, hello, last = done.out.splitlines()
    assert (first, undone) == (load(run).respond([HELLO]).text, f"removed: {HELLO}")
    assert last == load(run).respond(["Hello \x1b[31m", hello, HELLO]).text
    assert "\x1b" not in done.out + done.err
    tokens = load(run).attention([HELLO], first)["response_tokens"]
    assert (again, len(attention.split("\t"))) == (first, 2 * len(tokens) + 3)
    note, error, total = done.err.splitlines()
    assert "/search sampling" in note
    assert error.startswith("standard input:6: unknown command '/bad'")
    assert (done.code, total) == (2, "dialog: 1 of the lines could not be applied")


@pytest.mark.parametrize("typed", ["\x1b[31m", "\x1b[M123", "\x1b[<1;2m", "\x1b[1;2;3M"])
def test_typed_escape_codes_are_left_out(typed: str, caplog: pytest.LogCaptureFixture) -> None:
    """They look like the events of a mouse; the editor prints a traceback for one that is not
    complete.
    """
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text(f"a{typed}")
        later = partial(call_soon, keys.send_text, "b\r")  # in a read of its own
        assert line_editor().prompt("> ", pre_run=later, set_exception_handler=False) == "ab"
    assert not caplog.records


@pytest.mark.endurance
def test_heads_are_removed_from_the_last_run(trained: Callable[[str], Path]) -> None:
    from dialog.models.attention.heads import head_names
    from dialog.runs.load import load

    run = trained("transformer")
    heads = [name for name in head_names(load(run).model) if name.startswith("decoder.layers.0.")]
    expected = [load(run, ablate=removed).respond([HELLO]).text for removed in ([], heads)]
    assert expected[0] != expected[1]
    options = [option for head in heads for option in ("--ablate", head)]
    done = process("chat", str(run), str(run), *options, stdin=HELLO)
    assert [line.partition(": ")[2] for line in done.out.splitlines()] == expected


@pytest.mark.endurance
def test_self_chat_is_printed_and_measured(trained: Callable[[str], Path]) -> None:
    runs = [str(trained(family)) for family in ("lstm", "transformer")]
    done = process("chat", *runs, "generation=top_p", "--self-chat", "3", "--start", HELLO)
    start, *turns, blank, header, everything, _, _ = done.out.splitlines()
    assert (start, blank, header.split()[0]) == (f"start: {HELLO}", "", "repeated")
    assert [turn.split(":")[0] for turn in turns] == ["lstm", "transformer", "lstm"]
    assert everything.startswith("all ")
    result = json.loads(
        process(
            "chat", *runs, "generation=top_p", "--self-chat", "3", "--start", HELLO, "--json"
        ).out
    )
    assert [f"{turn['name']}: {turn['text']}" for turn in result["turns"]] == turns
    assert list(result["repetition"]) == ["all", "lstm", "transformer"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "b", "c"], "3 runs; give one or two run folders"),
        (["top_p=1"], "0 runs; give one or two run folders"),
        (["a", "--json"], "--json: only with --self-chat N"),
        (["a", "--self-chat", "2", "--start", "\udcff"], "--start: the text is not UTF-8"),
        (["a"], "a is not a run folder"),
    ],
)
def test_wrong_arguments_are_one_line(
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["dialog", "chat", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert err.startswith(f"dialog: {message}")
    assert err.count("\n") == 1


def test_a_closed_standard_input_is_one_line() -> None:
    command = ["sh", "-c", 'exec "$0" -m dialog chat a <&-', sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("dialog: standard input is closed")
