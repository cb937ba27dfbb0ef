"""Dialogues of your own, as plain text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dialog.data.corpora.parsing.records import Block, SplitFiles, block_records, decoded, numbered, require_path
from dialog.data.dialogue import Dialogue, Entry, Turn
from dialog.errors import UserError


class PlainText:
    """Reads a folder with `train.txt`, `validation.txt` and `test.txt`, or one file that is split by a rule.

    A turn is a line; one blank line or more stands between two dialogues. The id of a dialogue is `<split>-<number of
    its first line>`. The rule for one file is that of `parsing.records.share`. Files may be compressed
    (.gz, .xz, .zst).

    Args:
        path: The folder or the file.
        speakers: Whether each line begins with its speaker (`Anna: Hi !`); else "A" and "B" alternate.
        encoding: Of the files; `utf-8:replace` reads U+FFFD for bytes that are not UTF-8.
    """

    def __init__(self, path: Path | None, *, speakers: bool = False, encoding: str = "utf-8") -> None:
        path = require_path(path, "text", "a folder with train.txt, validation.txt and test.txt, or a file")
        self.files = SplitFiles(path, (".txt",), "it should hold dialogues, a turn a line, a blank line between two")
        self.speakers = speakers
        self.encoding = encoding

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of its file."""

        def parse(block: Block[bytes], place: str) -> Dialogue | None:
            if _blank(block[0][1]):
                return None
            return Dialogue(f"{split}-{place.rpartition(':')[2]}", tuple(self._turns(block)), place=place)

        return self.files.entries(split, lambda file: block_records(numbered(file), _begins, parse))

    def fingerprint(self) -> dict[str, str]:
        """Map the file or the three files to their SHA-256."""
        return self.files.fingerprint()

    def _turns(self, block: Block[bytes]) -> Iterator[Turn]:
        for index, (place, raw) in enumerate(block):
            speaker, text = "AB"[index % 2], decoded(raw, place, self.encoding)
            if self.speakers:
                speaker, mark, text = text.partition(": ")
                if not mark or not speaker.strip():
                    raise UserError(f"{place}: no speaker; write `Name: text`, or set data.corpus.speakers=false")
            yield Turn(speaker.strip(), text)


def _blank(line: bytes) -> bool:
    return not line.strip()


def _begins(block: Block[bytes], line: bytes) -> bool:
    return _blank(block[-1][1]) != _blank(line)
