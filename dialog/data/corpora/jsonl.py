"""Dialogues as JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from dialog.data.corpora.parsing.corpus_files import SplitFiles, require_path
from dialog.data.corpora.parsing.lines import line_number, line_records
from dialog.data.corpora.parsing.records import record_id
from dialog.data.dialogue import Dialogue, Entry, Turn
from dialog.data.reading.json_text import parse_json
from dialog.errors import UserError

FORMAT = '{"id": "d1", "turns": [{"speaker": "A", "text": "Hi !"}, ...]}'


class JsonLines:
    """Read JSON lines: `train.jsonl`, `validation.jsonl` and `test.jsonl`, or one file.

    Each line is `{"id": str, "turns": [{"speaker": str, "text": str} or str, ...], "meta": {...}}`.
    `id` (may be an integer; default: `<split>-<line number>`), `meta` and speakers ("A" and "B"
    then alternate) are optional. Blank lines are skipped. One file is divided by
    `parsing.splits.split_by_hash`. Files may be compressed (.gz, .xz, .zst).

    Args:
        path: The folder or the file.
        encoding: Encoding of the files; `utf-8:replace` reads bytes that are not UTF-8 as U+FFFD.
    """

    def __init__(self, path: Path | None, *, encoding: str = "utf-8") -> None:
        path = require_path(
            path, "jsonl", "a folder with train.jsonl, validation.jsonl and test.jsonl, or a file"
        )
        self.files = SplitFiles(
            path, (".jsonl",), f"it should hold dialogues, one a line: {FORMAT}"
        )
        self.encoding = encoding

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of its file."""
        return self.files.entries(
            split, lambda file: line_records(file, partial(_dialogue, split), self.encoding)
        )

    def fingerprint(self) -> dict[str, str]:
        """Map the file or the three files to their SHA-256."""
        return self.files.fingerprint()


def _dialogue(split: str, line: str, place: str) -> Dialogue:
    fields = parse_json(line, place)
    if not isinstance(fields, dict) or not isinstance(fields.get("turns"), list):
        raise UserError(f'{place}: no "turns"; write {FORMAT}')
    meta = fields.get("meta", {})
    if not isinstance(meta, dict):
        raise UserError(f'{place}: "meta" is not an object; write {{...}} or leave it out')
    turns = (
        _turn(turn, where=f"{place}: turn {index + 1}", index=index)
        for index, turn in enumerate(fields["turns"])
    )
    id = record_id(fields.get("id", f"{split}-{line_number(place)}"), place)
    return Dialogue(id, tuple(turns), meta, place=place)


def _turn(turn: object, *, where: str, index: int) -> Turn:
    alternate = "AB"[index % 2]
    if isinstance(turn, str):
        return Turn(alternate, turn)
    if not isinstance(turn, dict) or "text" not in turn:
        raise UserError(
            f'{where} has no "text"; write {{"speaker": "A", "text": "Hi !"}} or a bare string'
        )
    speaker = (
        alternate
        if turn.get("speaker") is None
        else _text(turn["speaker"], "speaker", where=where, empty=False)
    )
    return Turn(speaker, _text(turn["text"], "text", where=where))


def _text(value: object, key: str, *, where: str, empty: bool = True) -> str:
    if not isinstance(value, str) or not (value or empty):
        problem = "is empty" if value == "" else f"is {type(value).__name__}, not a string"
        raise UserError(f'{where}: "{key}" {problem}; write it in quotes')
    return value
