"""Chats as JSON lines, in the format of OpenAI's chat API and fine-tuning files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from dialog.data.corpora.parsing.chat_messages import (
    FACT_ROLES,
    TOOL_ROLES,
    content_text,
    misplaced_role,
    parse_chat,
)
from dialog.data.corpora.parsing.corpus_files import SplitFiles, require_path
from dialog.data.corpora.parsing.lines import line_number, line_records
from dialog.data.corpora.parsing.records import record_id
from dialog.data.dialogue import Dialogue, Entry
from dialog.data.reading.json_text import Json, parse_json
from dialog.errors import UserError

FORMAT = (
    '{"messages": [{"role": "user", "content": "Hi !"}, {"role": "assistant", "content": "Hello'
    ' ."}]}'
)
SPEAKERS = ("user", "assistant")


class Messages:
    """Read chats in OpenAI's format: `train.jsonl`, `validation.jsonl` and `test.jsonl`, or one
    file.

    Each line is `{"messages": [{"role": str, "content": str}, ...]}`, with an optional `"id"`
    (default:
    `<split>-<line number>`). The roles `user` and `assistant` are the speakers. Messages of
    `system` or `developer` before the first turn are facts that both know. Content may be a list of
    `{"type": "text", "text": str}`, joined by line feeds. Other keys and blank lines are ignored.
    Tool messages, tool calls, images, audio, other roles and later system messages are malformed.
    One file is divided by `parsing.splits.split_by_hash`. Files may be compressed (.gz, .xz, .zst).

    Args:
        path: The folder or the file.
    """

    def __init__(self, path: Path | None) -> None:
        path = require_path(
            path,
            "messages",
            "a folder with train.jsonl, validation.jsonl and test.jsonl, or a file",
        )
        self.files = SplitFiles(
            path, (".jsonl",), f"it should hold dialogues, one a line: {FORMAT}"
        )

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of its file."""
        return self.files.entries(split, lambda file: line_records(file, partial(_dialogue, split)))

    def fingerprint(self) -> dict[str, str]:
        """Map the file or the three files to their SHA-256."""
        return self.files.fingerprint()


def _dialogue(split: str, line: str, place: str) -> Dialogue:
    fields = parse_json(line, place)
    if not isinstance(fields, dict) or not isinstance(fields.get("messages"), list):
        raise UserError(f'{place}: no "messages"; write {FORMAT}')
    turns, facts = parse_chat(fields["messages"], place, _message)
    id = record_id(fields.get("id", f"{split}-{line_number(place)}"), place)
    return Dialogue(id, turns, facts=facts, place=place)


def _message(message: Json, where: str) -> tuple[str, str]:
    role = message["role"]
    text = content_text(message, where)
    if role not in (*SPEAKERS, *FACT_ROLES, *TOOL_ROLES):
        raise misplaced_role(role, where, f"not one of {', '.join((*SPEAKERS, *FACT_ROLES))}")
    return role, text
