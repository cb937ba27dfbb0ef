"""Telegram Desktop's result.json: chats, entities, service messages, media, pauses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dialog.data.corpora.telegram import Telegram
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Malformed, Turn
from dialog.errors import UserError


def message(number: int, speaker: str | None, text: object, minute: int, **more: object) -> Any:
    return {
        "id": number, "type": "message", "date": f"2021-12-31T{minute // 60:02}:{minute % 60:02}:00",
        "from": speaker, "from_id": f"user{number}", "text": text, **more,
    }  # fmt: skip


def read(folder: Path, content: object) -> list[Entry]:
    (folder / "result.json").write_text(json.dumps(content), encoding="utf-8")
    corpus = Telegram(folder)
    return [entry for split in SPLITS for entry in corpus.dialogues(split)]


def chat(number: int, *messages: Any) -> dict[str, Any]:
    return {"name": "Anna", "type": "personal_chat", "id": number, "messages": list(messages)}


def test_a_chat(tmp_path: Path) -> None:
    service = {"id": 2, "type": "service", "date": "2021-12-31T10:00:00", "action": "pin_message"}
    link = ["See ", {"type": "link", "text": "https://example.org"}, " !"]
    (entry,) = read(
        tmp_path,
        chat(
            7,
            message(1, "Anna", "Hi", 600, date_unixtime="1640944800"),
            service,
            message(3, "Bo", "", 600, photo="photo.jpg", date_unixtime="1640944801"),
            message(4, None, link, 601, edited="2021-12-31T10:05:00", date_unixtime="1640944860"),
        ),
    )
    assert isinstance(entry, Dialogue)
    assert entry.id == "7-1"
    assert entry.turns == (Turn("Anna", "Hi"), Turn("user4", "See https://example.org !"))
    assert entry.meta["left_out"] == {"notices": 1, "media": 1}


def test_an_account_of_several_chats_divided_at_pauses(tmp_path: Path) -> None:
    chats = [
        chat(n, message(1, "A", f"{n}", 0), message(2, "B", "b", 5), message(3, "A", "c", 300))
        for n in (1, 2)
    ]
    content = {"chats": {"list": chats[:1]}, "left_chats": {"list": chats[1:]}, "about": "x"}
    ids = {entry.id for entry in read(tmp_path, content) if isinstance(entry, Dialogue)}
    assert ids == {"1-1", "1-3", "2-1", "2-3"}


def test_a_bad_message_is_malformed_and_the_others_are_read(tmp_path: Path) -> None:
    bad = [message(5, "A", "x", 0, date="yesterday"), {"id": 6}, message(7, "A", [3], 0)]
    entries = read(tmp_path, chat(1, message(1, "A", "a", 0), *bad, message(2, "B", "b", 1)))
    messages = [entry.message for entry in entries if isinstance(entry, Malformed)]
    assert [f"message {number}" in text for number, text in zip((2, 3, 4), messages, strict=True)]
    (dialogue,) = [entry for entry in entries if isinstance(entry, Dialogue)]
    assert len(dialogue.turns) == 2


@pytest.mark.parametrize("content", [[], {"a": 1}, {"messages": 3}, {"chats": {"list": [1]}}])
def test_other_json_is_an_error(tmp_path: Path, content: object) -> None:
    with pytest.raises(UserError, match=r"result\.json"):
        read(tmp_path, content)


def test_laws(check_laws: Callable[..., Any]) -> None:
    messages = [
        message(2 * n + i, "AB"[i], f"{n} {i}", 0, date=f"2021-01-{n + 1:02}T10:00:00")
        for n in range(30)
        for i in range(2)
    ]
    splits = check_laws(Telegram, {"ChatExport/result.json": json.dumps(chat(1, *messages))})
    assert sum(map(len, splits.values())) == 30
