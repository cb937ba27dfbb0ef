"""Output of one line of a chat, and the history of the line editor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dialog.chat.session import Session
from dialog.chat.terminal import Screen, line_editor
from dialog.data.tokenizers.tokenizer import TextStream

HELLO = "I will have the soup ."


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize(
    ("run", "note"), [(0, "(stopped; the reply of transformer is empty)"), (1, "(stopped)")]
)
def test_kept_text_of_two_stopped_runs_is_shown(
    session: Callable[..., Session],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
    run: int,
    note: str,
) -> None:
    chat = session("lstm", "transformer")
    tokens = [0, 0]
    advance = TextStream.__call__

    def interrupt(stream: TextStream, ids: list[int]) -> None:
        advance(stream, ids)
        number = [other.tokenizer for other in chat.runs].index(stream._tokenizer)
        tokens[number] += 1
        if tokens[number] == 4 and number == run:
            raise KeyboardInterrupt

    monkeypatch.setattr(TextStream, "__call__", interrupt)
    monkeypatch.setenv("COLUMNS", str(columns))
    Screen(chat).show(HELLO)
    shown, last = capsys.readouterr().out.rstrip().rsplit("\n", 1)
    replies = chat.exchanges[-1].replies
    assert last == note
    words = [
        f"{name}: {reply}".split() for name, reply in zip(chat.names, replies, strict=True) if reply
    ]
    if columns == 80:
        assert shown.split() == [word for reply in words for word in reply]
    else:
        assert sorted(shown.split()) == sorted(
            [*(word for reply in words for word in reply), *["transformer:"][run:]]
        )
    Screen(chat).show("And ?")
    assert len(chat.exchanges) == 2


def test_nothing_generated_changes_nothing(
    session: Callable[..., Session],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chat = session("lstm", "transformer")

    def interrupt(stream: TextStream, ids: list[int]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TextStream, "__call__", interrupt)
    Screen(chat).show(HELLO)
    assert capsys.readouterr().out == "(stopped; the conversation has not changed)\n"
    assert chat.exchanges == []


def test_an_unreadable_history_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DIALOG_CACHE", str(tmp_path))
    (tmp_path / "chat_history").mkdir()
    history = line_editor().history
    assert list(history.load_history_strings()) == []
    history.store_string("Hi")
