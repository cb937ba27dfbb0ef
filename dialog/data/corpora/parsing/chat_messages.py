"""Chat messages with roles: turns, facts, and messages that text models cannot learn from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from dialog.data.dialogue import Turn
from dialog.data.reading.json_text import Json
from dialog.errors import UserError

FACT_ROLES = ("system", "developer")
"""Roles of messages before the first turn; they become facts."""
TOOL_ROLES = ("tool", "function")
NON_TEXT_KEYS = ("tool_calls", "function_call", "audio", "refusal")
"""Keys of assistant messages whose content is not only text."""


def parse_chat(
    messages: Iterable[Json], place: str, parse: Callable[[Json, str], tuple[str | None, str]]
) -> tuple[tuple[Turn, ...], tuple[Turn, ...]]:
    """Return the turns and the facts of a chat; both speakers know the facts.

    Args:
        messages: The messages in order.
        place: file:line of the chat.
        parse: Returns (role, text) of a message, given its place; with the role None, speakers "A"
            and "B" alternate.

    Raises:
        UserError: a tool's message, or a message of `FACT_ROLES` after the first turn.
    """
    turns: list[Turn] = []
    facts: list[Turn] = []
    for number, message in enumerate(messages, start=1):
        where = f"{place}: message {number}"
        role, text = parse(message, where)
        if role in TOOL_ROLES:
            raise misplaced_role(role, where, "not a speaker")
        if role not in FACT_ROLES:
            turns.append(Turn("AB"[len(turns) % 2] if role is None else role, text))
        elif turns:
            raise misplaced_role(role, where, "after the first turn")
        else:
            facts.append(Turn("", text))
    return tuple(turns), tuple(facts)


def content_text(message: Mapping[str, Json], where: str) -> str:
    """Return a message's content; a list of `{"type": "text", "text": str}` is joined by line
    feeds.

    Raises:
        UserError: the content is not text, or the message has one of `NON_TEXT_KEYS`.
    """
    check_text_only(message, where)
    content = message["content"]
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise UserError(
            f"{where}: its content is {type(content).__name__}, not text; write it in quotes"
        )
    types = [part["type"] for part in content if part["type"] != "text"]
    if types:
        raise UserError(
            f"{where} has a part of type {types[0]!r}; only text is supported: remove the dialogue"
        )
    return "\n".join(part["text"] for part in content)


def check_text_only(message: Mapping[str, Json], where: str) -> None:
    """Raise UserError if a message has one of `NON_TEXT_KEYS`."""
    for key in NON_TEXT_KEYS:
        if message.get(key):
            raise UserError(
                f'{where} has "{key}"; only text is supported: remove this message'
                " and the tools' messages, or the dialogue"
            )


def misplaced_role(role: Json, where: str, reason: str) -> UserError:
    """Return the error for a message whose role is not allowed there."""
    return UserError(f"{where} is of role {role!r}, {reason}; remove the message or the dialogue")
