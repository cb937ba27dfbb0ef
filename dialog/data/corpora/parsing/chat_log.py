"""Messages of a chat with their times, and the dialogues between its pauses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from dialog.data.corpora.parsing.records import records
from dialog.data.dialogue import WARNING, Dialogue, Entry, Malformed, Turn
from dialog.errors import UserError

GAP_HOURS = 3.0
"""Longest pause within a dialogue: more than a meal or a meeting, less than a night."""

LEFT_OUT = "left_out"
"""Key of `Dialogue.meta`: number of messages without text of their own, by kind."""

NOTICES = "notices"
MEDIA = "media"
DELETED = "deleted messages"
BOTS = "messages of bots"


class ChatMessage(NamedTuple):
    """A message with text; `id` is unique within its chat, `seconds` is its time."""

    place: str
    id: str
    seconds: float
    speaker: str
    text: str


class LeftOut(NamedTuple):
    """A message without text of a speaker; `kind` is counted."""

    place: str
    kind: str


ChatItem = ChatMessage | LeftOut | Malformed


def check_gap(corpus: str, gap_hours: float) -> float:
    """Return the seconds of the longest pause within a dialogue.

    Raises:
        UserError: not a positive number of hours.
    """
    if not gap_hours > 0:
        raise UserError(f"corpus {corpus}: gap_hours is {gap_hours}; give more than 0 hours")
    return gap_hours * 3600


def dialogues_of(chat: str, items: Iterable[ChatItem], gap: float) -> Iterator[Entry]:
    """Yield the dialogues of a chat: its messages between pauses of more than `gap` seconds.

    Ids are `<chat>-<id of the first message>`. Messages left out are counted in the meta of the
    dialogue that they follow, with a warning.
    """

    def parse(item: Conversation | UserError, place: str) -> Dialogue:
        if isinstance(item, UserError):
            raise item
        first = item.messages[0]
        turns = tuple(Turn(message.speaker, message.text) for message in item.messages)
        return Dialogue(f"{chat}-{first.id}", turns, _meta(item.left_out, place), place=place)

    yield from records(_conversations(items, gap), parse)


class Conversation(NamedTuple):
    """The messages of a dialogue, and the number of those left out, by kind."""

    messages: list[ChatMessage]
    left_out: Counter[str]


def _conversations(
    items: Iterable[ChatItem], gap: float
) -> Iterator[tuple[str, Conversation | UserError]]:
    current = Conversation([], Counter())
    for item in items:
        if isinstance(item, Malformed):
            yield "", UserError(item.message)
        elif isinstance(item, LeftOut):
            current.left_out[item.kind] += 1
        else:
            if current.messages and item.seconds - current.messages[-1].seconds > gap:
                yield current.messages[0].place, current
                current = Conversation([], Counter())
            current.messages.append(item)
    if current.messages:
        yield current.messages[0].place, current


def _meta(left_out: Mapping[str, int], place: str) -> dict[str, object]:
    if not left_out:
        return {}
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(left_out.items()))
    return {LEFT_OUT: dict(left_out), WARNING: f"{place}: left out of this dialogue: {counts}"}
