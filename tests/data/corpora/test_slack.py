"""Slack's exports: users, days, threads, mentions, notices, bots, deletions."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dialog.data.corpora.slack import Slack
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Malformed, Turn
from dialog.errors import UserError

USERS = [
    {"id": "U1", "name": "anna", "profile": {"display_name": "Anna"}},
    {"id": "U2", "name": "bo", "real_name": "Bo B.", "profile": {"display_name": ""}},
]


def message(user: str, text: str, seconds: float, **more: object) -> dict[str, Any]:
    return {"type": "message", "user": user, "text": text, "ts": f"{seconds:.6f}", **more}


def write(folder: Path, days: dict[str, list[Any]]) -> Path:
    files = {"users.json": USERS, "channels.json": [{"id": "C1", "name": "general"}], **days}
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


def read(path: Path) -> list[Entry]:
    corpus = Slack(path)
    return [entry for split in SPLITS for entry in corpus.dialogues(split)]


def by_id(entries: list[Entry]) -> dict[str, Dialogue]:
    return {entry.id: entry for entry in entries if isinstance(entry, Dialogue)}


DAY = [
    message("U1", "<@U2> see <#C1|general> &amp; <https://example.org|here>, <!channel>", 1.0),
    message("U2", "ok", 2.0, edited={"user": "U2", "ts": "3.0"}),
    message("U1", "has joined", 3.0, subtype="channel_join"),
    message("U1", "", 3.0, files=[{}]),
    {"type": "message", "subtype": "bot_message", "text": "beep", "ts": "4.0", "bot_id": "B1"},
    message("USLACKBOT", "This message was deleted.", 5.0, subtype="tombstone"),
    message("U1", "Question ?", 6.0, thread_ts="6.000000"),
    message("U3", "Answer .", 90000.0, thread_ts="6.000000"),
]


def test_a_channel_and_its_thread(tmp_path: Path) -> None:
    dialogues = by_id(read(write(tmp_path, {"general/2021-12-31.json": DAY})))
    assert set(dialogues) == {"general-1.000000", "general-thread-6.000000"}
    assert dialogues["general-1.000000"].turns == (
        Turn("Anna", "@Bo B. see #general & here, @channel"),
        Turn("Bo B.", "ok"),
        Turn("Anna", "Question ?"),
    )
    assert dialogues["general-1.000000"].meta["left_out"] == {
        "notices": 1, "media": 1, "messages of bots": 1, "deleted messages": 1,
    }  # fmt: skip
    thread = dialogues["general-thread-6.000000"]
    assert thread.turns == (Turn("Anna", "Question ?"), Turn("U3", "Answer ."))


def test_an_archive_is_read_as_its_folder(tmp_path: Path) -> None:
    folder = write(tmp_path / "export", {"general/2021-12-31.json": DAY})
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        for path in folder.rglob("*.json"):
            archive.write(path, path.relative_to(folder).as_posix())
    packed, plain = (
        {id: dialogue.turns for id, dialogue in by_id(read(path)).items()}
        for path in (tmp_path / "export.zip", folder)
    )
    assert packed == plain


def test_bad_messages_and_days_are_malformed(tmp_path: Path) -> None:
    days: dict[str, list[Any]] = {
        "a/2021-12-30.json": [message("U1", "a", 1), {"ts": "x"}, 7, message("U2", "b", 2)]
    }
    write(tmp_path, days)
    (tmp_path / "a" / "2021-12-31.json").write_text('{"ok": false}')
    entries = read(tmp_path)
    messages = [entry.message for entry in entries if isinstance(entry, Malformed)]
    assert len(messages) == 3
    assert "message 2" in messages[0]
    assert "2021-12-31.json" in messages[2]
    assert [len(dialogue.turns) for dialogue in by_id(entries).values()] == [2]


def test_other_folders_are_errors(tmp_path: Path) -> None:
    (tmp_path / "users.json").write_text('{"a": 1}')
    with pytest.raises(UserError, match=r"users\.json"):
        read(tmp_path)
    (tmp_path / "users.json").write_text("[]")
    with pytest.raises(UserError, match="holds no dialogue"):
        read(tmp_path)


def test_laws(check_laws: Callable[..., Any]) -> None:
    days = {
        f"general/2021-01-{day:02}.json": json.dumps(
            [message("U1", f"a {day}", day * 86400), message("U2", f"b {day}", day * 86400 + 9)]
        )
        for day in range(1, 30)
    }
    splits = check_laws(Slack, {"users.json": json.dumps(USERS), **days})
    assert sum(map(len, splits.values())) == 29
