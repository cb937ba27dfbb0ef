"""Chats exported by Telegram Desktop as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from dialog.data.corpora.parsing.chat_log import (
    GAP_HOURS,
    MEDIA,
    NOTICES,
    ChatItem,
    ChatMessage,
    LeftOut,
    dialogues_of,
)
from dialog.data.corpora.parsing.exports import ExportCorpus, ExportedFile
from dialog.data.dialogue import Entry, Malformed
from dialog.data.reading.json_text import Json, parse_json
from dialog.errors import UserError

NAME = "result.json"
HINT = 'it should be the result.json of Telegram Desktop: {"messages": [...]}'
MESSAGE = "message"
SERVICE = "service"


class Telegram(ExportCorpus):
    """Read `result.json` of Telegram Desktop ("Export chat history", format JSON): one chat, or all
    of an account.

    Messages of type `service` and media without a caption are left out and counted. Of an edited
    message the export holds the last text; deleted messages are not in it. Links, mentions and
    other entities give their text. Messages between pauses are a dialogue with the id
    `<chat>-<message>`, and `parsing.splits.split_by_hash` divides the dialogues. The file is read
    into memory as a whole.

    Args:
        path: The file, or the folder or zip archive that holds it.
        gap_hours: Longest pause within a dialogue; the default is more than a meal or a meeting and
            less than a night.
    """

    def __init__(self, path: Path | None, *, gap_hours: float = GAP_HOURS) -> None:
        super().__init__(
            path,
            "telegram",
            f"the folder of an export, which holds {NAME}",
            pattern=NAME,
            hint=HINT,
            gap_hours=gap_hours,
        )

    def entries(self) -> Iterator[Entry]:
        """Yield the dialogues of all splits, chat by chat."""
        for file in self.exported():
            for chat in _chats(file):
                name = str(chat.get("id", chat.get("name") or "chat"))
                place = f"{file.place}: chat {name}"
                yield from dialogues_of(name, _items(chat["messages"], place), self.gap)


def _chats(file: ExportedFile) -> list[Json]:
    """Return the chats of a file.

    Raises:
        UserError: another content.
    """
    content = parse_json(file.text(), file.place)
    try:
        lists = (
            [[content]]
            if "messages" in content
            else [content[key]["list"] for key in ("chats", "left_chats") if key in content]
        )
        chats = [chat for chats in lists for chat in chats]
        if not all(isinstance(chat["messages"], list) for chat in chats):
            raise TypeError("messages is not a list")
    except (AttributeError, KeyError, TypeError) as error:
        raise UserError(f"{file.place}: not an export of Telegram; {HINT}") from error
    return chats


def _items(messages: list[Json], place: str) -> Iterator[ChatItem]:
    for number, message in enumerate(messages, start=1):
        where = f"{place}, message {number}"
        try:
            yield _item(message, where)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            yield Malformed(f"{where}: not a message of Telegram ({reason}); correct or remove it")


def _item(message: Json, place: str) -> ChatItem:
    if message["type"] == SERVICE:
        return LeftOut(place, NOTICES)
    if message["type"] != MESSAGE:
        raise ValueError(f"its type is {message['type']!r}")
    text = _text(message["text"])
    if not text.strip():
        return LeftOut(place, MEDIA)
    speaker = message.get("from") or message["from_id"]
    return ChatMessage(place, str(message["id"]), _seconds(message), str(speaker), text)


def _text(parts: Json) -> str:
    """Join the parts of a text: strings, and entities with a text."""
    if isinstance(parts, str):
        return parts
    return "".join(part if isinstance(part, str) else str(part["text"]) for part in parts)


def _seconds(message: Json) -> float:
    if "date_unixtime" in message:
        return float(message["date_unixtime"])
    return (datetime.fromisoformat(message["date"]) - datetime(1970, 1, 1)).total_seconds()
