"""EmpatheticDialogues (Rashkin et al. 2019, https://arxiv.org/abs/1811.00207): talk about emotional
situations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from dialog.data.corpora.parsing.corpus_files import FileCorpus
from dialog.data.corpora.parsing.lines import byte_lines, decode_line
from dialog.data.corpora.parsing.records import alternating, records
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Turn
from dialog.data.reading.files import find_file
from dialog.errors import UserError

NAMES = {"train": "train", "validation": "valid", "test": "test"}
HEADER = b"conv_id,"
FIELDS = (8, 9)
"""Numbers of fields of a line; the ninth, in valid and test, holds candidate responses."""


class Empathetic(FileCorpus):
    """Read the official archive of EmpatheticDialogues: `train.csv`, `valid.csv` and `test.csv`, an
    utterance a line.

    The format is not standard CSV: every comma ends a field (a comma of the text is written
    `_comma_`), and quotes are text. White space around a text is removed. The lines of a
    conversation are consecutive and numbered from 1; "speaker", who describes the situation, and
    "listener" alternate. Ids are the corpus's own. `meta["emotion"]` is the emotion and
    `meta["prompt"]` the description of the situation.

    Args:
        path: The unpacked archive.
        prompt: Make the description of the situation a fact that the speaker knows.
    """

    def __init__(self, path: Path | None, *, prompt: bool = False) -> None:
        content = "the unpacked archive (train.csv, valid.csv, test.csv)"
        super().__init__(path, "empathetic", content)
        self.prompt = prompt

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of its file."""
        lines = (line for line in byte_lines(self._file(split)) if not line[1].startswith(HEADER))
        conversations = (
            list(group) for _, group in groupby(lines, key=lambda line: line[1].partition(b",")[0])
        )
        return records(((lines[0][0], lines) for lines in conversations), self._dialogue)

    def files(self) -> Iterable[Path]:
        """Return the files of the splits."""
        return map(self._file, SPLITS)

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256, and `prompt` to its value."""
        return {"prompt": str(self.prompt), **super().fingerprint()}

    def _file(self, split: str) -> Path:
        hint = "the unpacked archive should hold it; set data.path=DIR"
        return find_file(self.path, f"{NAMES[split]}.csv", hint)

    def _dialogue(self, lines: list[tuple[str, bytes]], place: str) -> Dialogue:
        rows = [_fields(raw, where, number) for number, (where, raw) in enumerate(lines, start=1)]
        id, _, emotion, situation, *_ = rows[0]
        turns = alternating((row[5] for row in rows), ("speaker", "listener"))
        facts = (Turn("speaker", situation),) if self.prompt else ()
        return Dialogue(id, turns, {"emotion": emotion, "prompt": situation}, facts, place)


def _fields(raw: bytes, place: str, number: int) -> list[str]:
    """Return the fields of a conversation's line `number`."""
    fields = [field.replace("_comma_", ",").strip() for field in decode_line(raw, place).split(",")]
    if len(fields) not in FIELDS:
        raise UserError(
            f"{place}: {len(fields)} fields, not 8 or 9; write a comma of the text as _comma_"
        )
    if fields[1] != str(number):
        raise UserError(
            f"{place}: utterance {fields[1]} of its conversation, not {number}; correct or"
            " remove it"
        )
    return fields
