"""Chats as JSON lines, in the shape that OpenAI's chat API and fine-tuning files have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dialog.data.corpora.parsing.records import (
    TELLS,
    SplitFiles,
    line_records,
    misplaced,
    refuse_calls,
    require_path,
    tells,
)
from dialog.data.dialogue import Dialogue, Entry, Turn
from dialog.data.reading.json_text import Json, parse_json
from dialog.errors import UserError

FORMAT = '{"messages": [{"role": "user", "content": "Hi !"}, {"role": "assistant", "content": "Hello ."}]}'
SAYS = ("user", "assistant")


class Messages:
    """Reads a folder with `train.jsonl`, `validation.jsonl` and `test.jsonl`, or one file that is split by a rule.

    Each line is `{"messages": [{"role": str, "content": str}, ...]}` with an `"id"` or without (it is then
    `<split>-<line number>`). Roles `user` and `assistant` are the speakers. What `system` or `developer` say before the
    first of them are facts that the assistant knows. Content may be a list of `{"type": "text", "text": str}`, joined
    by line feeds. Other keys are left out. Malformed are tools and calls of them, images and sound, other roles, and a
    system message further on. The rule for one file is that of `parsing.records.share`. Files may be
    compressed (.gz, .xz, .zst).

    Args:
        path: The folder or the file.
    """

    def __init__(self, path: Path | None) -> None:
        path = require_path(path, "messages", "a folder with train.jsonl, validation.jsonl and test.jsonl, or a file")
        self.files = SplitFiles(path, (".jsonl",), f"it should hold dialogues, one a line: {FORMAT}")

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of its file."""
        return self.files.entries(split, lambda file: line_records(file, lambda line, place: _chat(line, place, split)))

    def fingerprint(self) -> dict[str, str]:
        """Map the file or the three files to their SHA-256."""
        return self.files.fingerprint()


def _chat(line: str, place: str, split: str) -> Dialogue:
    fields = parse_json(line, place)
    if not isinstance(fields, dict) or not isinstance(fields.get("messages"), list):
        raise UserError(f'{place}: no "messages"; write {FORMAT}')
    facts: list[Turn] = []
    turns: list[Turn] = []
    for number, message in enumerate(fields["messages"], start=1):
        where = f"{place}: message {number}"
        role, text = message["role"], _text(message, where)
        if tells(role, where, first=not turns):
            facts.append(Turn("assistant", text))
        elif role in SAYS:
            turns.append(Turn(role, text))
        else:
            raise misplaced(role, where, f"which is none of {', '.join((*SAYS, *TELLS))}")
    id = fields.get("id", f"{split}-{place.rpartition(':')[2]}")
    return Dialogue(id, tuple(turns), facts=tuple(facts), place=place)


def _text(message: dict[str, Json], where: str) -> str:
    """What a message says, in one piece."""
    refuse_calls(message, where)
    content = message["content"]
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise UserError(f"{where}: its content is {type(content).__name__}, no text; write it in quotes")
    other = [part["type"] for part in content if part["type"] != "text"]
    if other:
        raise UserError(f"{where} has a part of type {other[0]!r}; only text can be learnt: take the dialogue out")
    return "\n".join(part["text"] for part in content)
