"""Dialogues of your own, as JSON lines."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from dialog.data.corpora.textfile import numbered_lines, require_file, sha256
from dialog.data.dialogue import SPLITS, Dialogue, Turn
from dialog.errors import UserError

FORMAT = '{"id": "d1", "turns": [{"speaker": "A", "text": "Hi !"}, ...]}'
TENTHS = {"train": range(8), "validation": range(8, 9), "test": range(9, 10)}


class JsonLines:
    """Reads a folder with train.jsonl, validation.jsonl and test.jsonl, or one file that is split by a rule.

    Each line is `{"id": str, "turns": [{"speaker": str, "text": str} or str, ...], "meta": {...}}`. `id` and `meta`
    may be missing (the id is then `<split>-<line number>`), and so may a speaker: "A" and "B" then alternate.

    The rule for one file: SHA-256 of the turns' texts, joined by line feeds and read as one integer, modulo 10;
    0 to 7 is train, 8 validation, 9 test. Dialogues of the same words are thus in the same split, and adding lines
    moves none. The ids of a split are held in memory, to tell duplicates.

    Raises:
        UserError: with file:line, whatever is not as above: bytes, JSON, types, lone surrogates, empty lines,
            an id that occurs twice in a split; with the file, a split without a dialogue.
    """

    def __init__(self, path: Path | None) -> None:
        if path is None:
            raise UserError(
                "jsonl needs dialogues: set data.path to a folder with train.jsonl, validation.jsonl and test.jsonl, "
                "or to one file"
            )
        self.path = Path(path)

    def dialogues(self, split: str) -> Iterator[Dialogue]:
        """Yield the dialogues of a split in the order of its file."""
        file = self._files()[split]
        seen: set[str] = set()
        for number, line in numbered_lines(file):
            where = f"{file}:{number}"
            dialogue = _dialogue(line, where=where, default_id=f"{split}-{number}")
            if self.path.is_file() and _tenth(dialogue) not in TENTHS[split]:
                continue
            if dialogue.id in seen:
                raise UserError(f"{where}: the id {dialogue.id!r} occurs twice in {split}; give each dialogue its own")
            seen.add(dialogue.id)
            yield dialogue
        if not seen:
            raise UserError(f"{file}: no dialogue falls to {split}; give more, or a folder with {split}.jsonl")

    def fingerprint(self) -> dict[str, str]:
        """Map the file or the three files to their SHA-256."""
        return {file.name: sha256(file) for file in self._files().values()}

    def _files(self) -> dict[str, Path]:
        if self.path.is_dir():
            files = {split: self.path / f"{split}.jsonl" for split in SPLITS}
        else:
            files = dict.fromkeys(SPLITS, self.path)
        for split, file in files.items():
            require_file(file, f"it should hold the dialogues of {split}, one a line: {FORMAT}")
        return files


def _tenth(dialogue: Dialogue) -> int:
    content = "\n".join(turn.text for turn in dialogue.turns)
    return int(hashlib.sha256(content.encode()).hexdigest(), 16) % 10


def _dialogue(line: str, *, where: str, default_id: str) -> Dialogue:
    if not line.strip():
        raise UserError(f"{where}: empty line; remove it")
    fields = _json(line, where=where)
    if not isinstance(fields, dict) or not isinstance(fields.get("turns"), list):
        raise UserError(f'{where}: no "turns"; write {FORMAT}')
    meta = fields.get("meta", {})
    if not isinstance(meta, dict):
        raise UserError(f'{where}: "meta" is not an object; write {{...}} or leave it out')
    turns = (_turn(turn, where=f"{where}: turn {index + 1}", index=index) for index, turn in enumerate(fields["turns"]))
    return Dialogue(_text(fields.get("id", default_id), "id", where=where, empty=False), tuple(turns), meta)


def _turn(turn: object, *, where: str, index: int) -> Turn:
    alternate = "AB"[index % 2]
    if isinstance(turn, str):
        return Turn(alternate, _text(turn, "text", where=where))
    if not isinstance(turn, dict) or "text" not in turn:
        raise UserError(f'{where} has no "text"; write {{"speaker": "A", "text": "Hi !"}} or a bare string')
    speaker = alternate if turn.get("speaker") is None else _text(turn["speaker"], "speaker", where=where, empty=False)
    return Turn(speaker, _text(turn["text"], "text", where=where))


def _text(value: object, key: str, *, where: str, empty: bool = True) -> str:
    if not isinstance(value, str) or not (value or empty):
        kind = "is empty" if value == "" else f"is {type(value).__name__}, not a string"
        raise UserError(f'{where}: "{key}" {kind}; write it in quotes')
    try:
        value.encode()
    except UnicodeEncodeError as error:
        surrogate = f"\\u{ord(value[error.start]):04x}"
        raise UserError(f'{where}: "{key}" holds half a character ({surrogate}); write both halves or none') from error
    return value


def _json(line: str, *, where: str) -> object:
    try:
        value: object = json.loads(line, parse_constant=_no_constant, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise UserError(f"{where}: not JSON at character {error.colno}: {error.msg}; write {FORMAT}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not JSON that can be read: {error}; write {FORMAT}") from error
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} stands there twice")
    return fields
