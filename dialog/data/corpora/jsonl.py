"""Dialogues as JSON lines, and chats in the format of OpenAI's chat API and fine-tuning files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from dialog.data.corpora.parsing.chat_messages import (
    FACT_ROLES,
    TOOL_ROLES,
    content_text,
    misplaced_role,
    parse_chat,
)
from dialog.data.corpora.parsing.corpus_files import LineFileCorpus
from dialog.data.corpora.parsing.json_records import is_json_array, json_records, member
from dialog.data.corpora.parsing.lines import line_number, line_records
from dialog.data.corpora.parsing.records import record_id
from dialog.data.dialogue import Dialogue, Entry, Turn
from dialog.data.reading.json_text import Json, parse_json
from dialog.data.reading.parts import Part
from dialog.errors import UserError

TURNS = '{"id": "d1", "turns": [{"speaker": "A", "text": "Hi !"}, ...]}'
CHAT = (
    '{"messages": [{"role": "user", "content": "Hi !"}, {"role": "assistant", "content": "Hello'
    ' ."}]}'
)
SPEAKERS = ("user", "assistant")


class JsonLines(LineFileCorpus):
    """Read JSON lines: `train.jsonl`, `validation.jsonl` and `test.jsonl`, or one file.

    Each line is `{"id": str, "turns": [{"speaker": str, "text": str} or str, ...], "meta": {...}}`.
    `id` (may be an integer; default: `<split>-<line number>`), `meta` and speakers ("A" and "B"
    then alternate) are optional. A line may also be the list of turns alone. With `context` and
    `response`, a line is a dialogue of two turns. Blank lines are skipped. A file `NAME.json` may
    be one JSON array of dialogues. One file is divided by `parsing.splits.split_by_hash`. Files may
    be compressed (.gz, .xz, .zst).

    Args:
        path: The folder or the file.
        turns: Key of the turns, or a path of keys, such as `payload.turns`.
        speaker: Key of a turn's speaker.
        text: Key of a turn's text.
        context: Key of the first turn, if a line is a pair.
        response: Key of the second turn.
        encoding: Encoding of the files; `utf-8:replace` reads bytes that are not UTF-8 as U+FFFD. A
            JSON array is UTF-8.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        turns: str = "turns",
        speaker: str = "speaker",
        text: str = "text",
        context: str | None = None,
        response: str | None = None,
        encoding: str = "utf-8",
    ) -> None:
        hint = f"it should hold dialogues, one a line: {TURNS}"
        super().__init__(path, "jsonl", (".jsonl",), hint)
        if (context is None) != (response is None):
            raise UserError(
                "corpus jsonl: only one of context and response is set; set both or neither"
            )
        self.turns = turns
        self.speaker = speaker
        self.text = text
        self.pair = (context, response) if context and response else ()
        self.encoding = encoding

    def read_part(self, file: Path, split: str, part: Part | None) -> Iterator[Entry]:
        """Yield the dialogues of a file or of a part of it."""
        return value_records(file, partial(self._dialogue, split), self.encoding, part)

    def parts(self, split: str) -> Sequence[Part]:
        """Return the parts of the file of a split; a JSON array has none."""
        return () if is_json_array(self._file(split)) else super().parts(split)

    def _dialogue(self, split: str, fields: Json, place: str, number: str) -> Dialogue:
        id = f"{split}-{number}"
        if self.pair:
            if not isinstance(fields, dict) or not set(self.pair) <= fields.keys():
                raise UserError(f"{place}: no {self.pair[0]!r} and {self.pair[1]!r}; add both")
            turns = [
                Turn(speaker, _text(fields[key], key, place))
                for speaker, key in zip("AB", self.pair, strict=True)
            ]
        else:
            given = _listed(fields, self.turns)
            if given is None:
                raise UserError(f'{place}: no "{self.turns}"; write {TURNS}')
            turns = [
                self._turn(turn, f"{place}: turn {index + 1}", "AB"[index % 2])
                for index, turn in enumerate(given)
            ]
        named = fields if isinstance(fields, dict) else {}
        meta = named.get("meta", {})
        if not isinstance(meta, dict):
            raise UserError(f'{place}: "meta" is not an object; write {{...}} or leave it out')
        return Dialogue(record_id(named.get("id", id), place), tuple(turns), meta, place=place)

    def _turn(self, turn: object, where: str, alternate: str) -> Turn:
        if isinstance(turn, str):
            return Turn(alternate, turn)
        if not isinstance(turn, dict) or self.text not in turn:
            raise UserError(
                f'{where} has no "{self.text}"; write {{"speaker": "A", "text": "Hi !"}} or a bare'
                " string"
            )
        speaker = alternate
        if turn.get(self.speaker) is not None:
            speaker = _text(turn[self.speaker], self.speaker, where, empty=False)
        return Turn(speaker, _text(turn[self.text], self.text, where))


def value_records(
    path: Path,
    parse: Callable[[Json, str, str], Dialogue],
    encoding: str | None = None,
    part: Part | None = None,
) -> Iterator[Entry]:
    """Yield `records` of `parse(value, place, number)` for each JSON line of a file or a part of
    it, or each element of the array of a file NAME.json.
    """
    if is_json_array(path):
        return json_records(path, lambda key, value, place: parse(value, place, key))
    return line_records(
        path,
        lambda line, place: parse(parse_json(line, place), place, line_number(place)),
        encoding,
        part,
    )


def _listed(fields: Json, path: str) -> list[Json] | None:
    """Return the list at a path of keys, or the record itself if it is a list of turns."""
    found = fields if isinstance(fields, list) and fields else member(fields, path)
    return found if isinstance(found, list) else None


def _text(value: object, key: str, where: str, *, empty: bool = True) -> str:
    if not isinstance(value, str) or not (value or empty):
        problem = "is empty" if value == "" else f"is {type(value).__name__}, not a string"
        raise UserError(f'{where}: "{key}" {problem}; write it in quotes')
    return value


class Messages(LineFileCorpus):
    """Read chats in OpenAI's format: `train.jsonl`, `validation.jsonl` and `test.jsonl`, or one
    file.

    Each line is `{"messages": [{"role": str, "content": str}, ...]}`, with an optional `"id"`
    (default: `<split>-<line number>`), or the list of messages alone. The roles `user` and
    `assistant` are the speakers. Messages of `system` or `developer` before the first turn are
    facts that both know. Content may be a list of `{"type": "text", "text": str}`, joined by line
    feeds. Other keys and blank lines are ignored. A file `NAME.json` may be one JSON array of
    chats. Tool messages, tool calls, images, audio, other roles and later system messages are
    malformed. One file is divided by `parsing.splits.split_by_hash`. Files may be compressed (.gz,
    .xz, .zst).

    Args:
        path: The folder or the file.
        turns: Key of the messages, or a path of keys, such as `payload.messages`.
    """

    def __init__(self, path: Path | None, *, turns: str = "messages") -> None:
        hint = f"it should hold dialogues, one a line: {CHAT}"
        super().__init__(path, "messages", (".jsonl",), hint)
        self.turns = turns

    def read_part(self, file: Path, split: str, part: Part | None) -> Iterator[Entry]:
        """Yield the dialogues of a file or of a part of it."""
        return value_records(file, partial(self._chat, split), part=part)

    def parts(self, split: str) -> Sequence[Part]:
        """Return the parts of the file of a split; a JSON array has none."""
        return () if is_json_array(self._file(split)) else super().parts(split)

    def _chat(self, split: str, fields: Json, place: str, number: str) -> Dialogue:
        messages = _listed(fields, self.turns)
        if messages is None:
            raise UserError(f'{place}: no "{self.turns}"; write {CHAT}')
        turns, facts = parse_chat(messages, place, _message)
        named = fields if isinstance(fields, dict) else {}
        id = record_id(named.get("id", f"{split}-{number}"), place)
        return Dialogue(id, turns, facts=facts, place=place)


def _message(message: Json, where: str) -> tuple[str, str]:
    role = message["role"]
    text = content_text(message, where)
    if role not in (*SPEAKERS, *FACT_ROLES, *TOOL_ROLES):
        raise misplaced_role(role, where, f"not one of {', '.join((*SPEAKERS, *FACT_ROLES))}")
    return role, text
