"""Workspaces exported by Slack: a folder or zip archive of daily JSON files."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path, PurePosixPath

from dialog.data.corpora.parsing.chat_log import (
    BOTS,
    DELETED,
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

PATTERN = "*.json"
HINT = "it should hold an export of Slack: users.json, and CHANNEL/2026-01-31.json for each day"
USERS = "users.json"
DAY = re.compile(r"\d{4}-\d{2}-\d{2}\.json")
SPOKEN = (None, "file_share", "me_message", "thread_broadcast")
"""Subtypes of messages whose text is a person's."""
REFERENCE = re.compile(r"<(?P<kind>[@#!]?)(?P<target>[^<>|]+)(?:\|(?P<label>[^<>]*))?>")
"""`<@U1|anna>`, `<#C1|general>`, `<!here>`, `<https://example.org|label>`."""


class Slack(ExportCorpus):
    """Read a workspace that Slack exported: `users.json`, and a file of messages for each channel
    and day.

    A thread is a dialogue of its own, begun by the message that it replies to; that message is in
    its channel too, unlike the replies. Notices such as joined members, messages of bots, deleted
    messages and files without a text are left out and counted; an edited message has its last text.
    Mentions give names, links their label or address. Speakers are named by `users.json`. Messages
    between pauses are a dialogue with the id `<channel>-<time>`, and `parsing.splits.split_by_hash`
    divides the dialogues.

    Args:
        path: The folder or the zip archive.
        gap_hours: Longest pause within a dialogue; the default is more than a meal or a meeting and
            less than a night.
    """

    def __init__(self, path: Path | None, *, gap_hours: float = GAP_HOURS) -> None:
        super().__init__(
            path,
            "slack",
            "the folder or zip archive of an export of Slack",
            pattern=PATTERN,
            hint=HINT,
            gap_hours=gap_hours,
        )

    def entries(self) -> Iterator[Entry]:
        """Yield the dialogues of all splits, chat by chat."""
        names: dict[str, str] = {}
        for file in self.exported():
            if PurePosixPath(file.name).name == USERS:
                names |= _names(file)
        days = (file for file in self.exported() if DAY.fullmatch(PurePosixPath(file.name).name))
        for folder, files in groupby(days, key=lambda file: PurePosixPath(file.name).parent):
            main, threads = _chats(files, names)
            yield from dialogues_of(folder.name, main, self.gap)
            for thread in threads:
                yield from dialogues_of(f"{folder.name}-thread", thread, math.inf)


def _chats(
    files: Iterable[ExportedFile], names: Mapping[str, str]
) -> tuple[list[ChatItem], list[list[ChatItem]]]:
    """Return the main chat of a channel and its threads, each with the message that it replies
    to.
    """
    main: list[ChatItem] = []
    threads: dict[str, list[ChatItem]] = {}
    starts: dict[str, ChatItem] = {}
    for file in files:
        for message, item in _items(file, names):
            thread = message.get("thread_ts") if isinstance(message, dict) else None
            if thread is None or not isinstance(item, ChatMessage) or thread == item.id:
                main.append(item)
            else:
                start = [starts[thread]] if thread in starts else []
                threads.setdefault(thread, start).append(item)
            if isinstance(item, ChatMessage):
                starts[item.id] = item
    return main, list(threads.values())


def _names(file: ExportedFile) -> dict[str, str]:
    """Map the ids of users to their names."""
    try:
        return {
            user["id"]: str(
                user.get("profile", {}).get("display_name")
                or user.get("real_name")
                or user.get("name")
                or user["id"]
            )
            for user in parse_json(file.text(), file.place)
        }
    except (AttributeError, KeyError, TypeError) as error:
        raise UserError(f"{file.place}: not a list of Slack's users; {HINT}") from error


def _items(file: ExportedFile, names: Mapping[str, str]) -> Iterator[tuple[Json, ChatItem]]:
    """Yield the messages of a day with what is read from them."""
    try:
        messages = parse_json(file.text(), file.place)
        if not isinstance(messages, list):
            raise UserError(f"{file.place}: not a list of messages; {HINT}")
    except UserError as error:
        yield None, Malformed(str(error))
        return
    for number, message in enumerate(messages, start=1):
        place = f"{file.place}: message {number}"
        try:
            yield message, _item(message, place, names)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            yield (
                message,
                Malformed(f"{place}: not a message of Slack ({reason}); correct or remove it"),
            )


def _item(message: Json, place: str, names: Mapping[str, str]) -> ChatItem:
    subtype = message.get("subtype")
    if subtype == "tombstone":
        return LeftOut(place, DELETED)
    if subtype == "bot_message" or ("bot_id" in message and "user" not in message):
        return LeftOut(place, BOTS)
    if subtype not in SPOKEN:
        return LeftOut(place, NOTICES)
    time = message["ts"]
    text = _plain(message["text"], names)
    if not text.strip():
        return LeftOut(place, MEDIA)
    user = message["user"]
    return ChatMessage(place, time, float(time), names.get(user, user), text)


def _plain(text: str, names: Mapping[str, str]) -> str:
    """Return a text with names for ids, labels for links, and Slack's three entities decoded."""

    def replaced(match: re.Match[str]) -> str:
        kind = match["kind"]
        label = match["label"]
        if kind == "@":
            return f"@{label or names.get(match['target'], match['target'])}"
        if kind == "#":
            return f"#{label or match['target']}"
        if kind == "!":
            return label or f"@{match['target'].partition('^')[0]}"
        return label or match["target"]

    return html.unescape(REFERENCE.sub(replaced, text))
