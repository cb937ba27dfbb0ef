"""EmpatheticDialogues (Rashkin et al. 2019, https://arxiv.org/abs/1811.00207): talk about how something felt."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from dialog.data.corpora.parsing.records import decoded, digests, numbered, records, require_path
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Turn
from dialog.data.reading.files import find_file
from dialog.errors import UserError

NAMES = {"train": "train", "validation": "valid", "test": "test"}
HEADER = b"conv_id,"
FIELDS = (8, 9)
"""Of a line; the ninth, in valid and test, holds candidates of other responses."""


class Empathetic:
    """Reads `train.csv`, `valid.csv` and `test.csv` of the official archive: an utterance a line.

    A comma always ends a field, since those of the text are written `_comma_`, and quotes are text: what reads the
    usual comma-separated values trips over them. White space around a text is none of it. The lines of a conversation
    follow one another, numbered from 1; who tells, "speaker", and who hears, "listener", take turns. Ids are the
    corpus's own; `meta["emotion"]` is the emotion and `meta["prompt"]` the situation described.

    Args:
        path: The unpacked archive.
        prompt: Whether the situation is a fact, which the one who tells knows.
    """

    def __init__(self, path: Path | None, *, prompt: bool = False) -> None:
        self.path = require_path(path, "empathetic", "the unpacked archive (train.csv, valid.csv, test.csv)")
        self.prompt = prompt

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of its file."""
        lines = (line for line in numbered(self._file(split)) if not line[1].startswith(HEADER))
        talks = (list(talk) for _, talk in groupby(lines, key=lambda line: line[1].partition(b",")[0]))
        return records(((talk[0][0], talk) for talk in talks), self._dialogue)

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256, with what becomes of the situations."""
        return {"prompt": str(self.prompt), **digests(self.path, map(self._file, SPLITS))}

    def _file(self, split: str) -> Path:
        return find_file(self.path, f"{NAMES[split]}.csv", "the unpacked archive should hold it; set data.path=DIR")

    def _dialogue(self, talk: list[tuple[str, bytes]], place: str) -> Dialogue:
        rows = [_fields(raw, where, number) for number, (where, raw) in enumerate(talk, start=1)]
        id, _, emotion, situation, *_ = rows[0]
        turns = tuple(Turn(("speaker", "listener")[index % 2], row[5]) for index, row in enumerate(rows))
        facts = (Turn("speaker", situation),) if self.prompt else ()
        return Dialogue(id, turns, {"emotion": emotion, "prompt": situation}, facts, place)


def _fields(raw: bytes, place: str, number: int) -> list[str]:
    """The fields of a conversation's line of that number."""
    fields = [field.replace("_comma_", ",").strip() for field in decoded(raw, place).split(",")]
    if len(fields) not in FIELDS:
        raise UserError(f"{place}: {len(fields)} fields, not 8 or 9; write a comma of the text as _comma_")
    if fields[1] != str(number):
        raise UserError(
            f"{place}: utterance {fields[1]} of its conversation where {number} should follow; mend or remove it"
        )
    return fields
