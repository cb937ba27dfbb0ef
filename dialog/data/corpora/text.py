"""Dialogues as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dialog.data.corpora.parsing.corpus_files import LineFileCorpus
from dialog.data.corpora.parsing.lines import byte_lines, decode_line, line_number
from dialog.data.corpora.parsing.records import Block, block_records
from dialog.data.corpora.parsing.splits import split_by_hash
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Turn
from dialog.data.reading.files import find_file, find_names
from dialog.data.reading.parts import Part, grouped, line_parts
from dialog.errors import UserError


class PlainText(LineFileCorpus):
    """Read plain text: `train.txt`, `validation.txt` and `test.txt`, or one file.

    A line is a turn; blank lines separate dialogues. Ids are `<split>-<number of the first line>`.
    One file is divided by `parsing.splits.split_by_hash`, and so is a folder of `.txt` files with
    other names, whose ids begin with the name of the file. Files may be compressed (.gz, .xz,
    .zst).

    Args:
        path: The folder or the file.
        speakers: Lines begin with the speaker (`Anna: Hi !`); false lets "A" and "B" alternate.
        encoding: Encoding of the files; `utf-8:replace` reads bytes that are not UTF-8 as U+FFFD.
    """

    def __init__(
        self, path: Path | None, *, speakers: bool = False, encoding: str = "utf-8"
    ) -> None:
        hint = "it should hold a turn a line, and a blank line between dialogues"
        super().__init__(path, "text", (".txt",), hint)
        self.speakers = speakers
        self.encoding = encoding

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split; see `SplitFileCorpus`."""
        texts = self._texts()
        if not texts:
            return super().dialogues(split)
        entries = (entry for file in texts for entry in self.read(file, self._name(file)))
        return split_by_hash(self._not_empty(entries, self.path), split)

    def files(self) -> Iterable[Path]:
        """Return the files of the splits, the single file, or all texts of the folder."""
        return self._texts() or super().files()

    def _texts(self) -> list[Path]:
        """Return the texts of a folder without files of splits."""
        if not self.path.is_dir() or any(self._holds(f"{split}.txt") for split in SPLITS):
            return []
        return [find_file(self.path, name, self.hint) for name in find_names(self.path, "**/*.txt")]

    def _name(self, file: Path) -> str:
        name = file.relative_to(self.path).as_posix()
        return name[: name.index(".txt")]

    def parts(self, split: str) -> Sequence[Part]:
        """Return the parts of the file of a split, or runs of the texts of the folder."""
        texts = self._texts()
        if not texts:
            return line_parts(self._file(split), _blank)
        sizes = [file.stat().st_size for file in texts]
        return [Part(0, start, end, 0) for start, end in grouped(sizes, sum(sizes))]

    def part(self, split: str, part: Part) -> Iterator[Entry]:
        """Yield the dialogues of a part; see `LineFileCorpus`."""
        texts = self._texts()
        if not texts:
            return super().part(split, part)
        files = texts[part.start : part.end]
        entries = (entry for file in files for entry in self.read(file, self._name(file)))
        return split_by_hash(entries, split)

    def read_part(self, file: Path, split: str, part: Part | None) -> Iterator[Entry]:
        """Yield the dialogues of a file or of a part of it."""

        def parse(block: Block[bytes], place: str) -> Dialogue | None:
            if _blank(block[0][1]):
                return None
            return Dialogue(f"{split}-{line_number(place)}", tuple(self._turns(block)), place=place)

        return block_records(byte_lines(file, part=part), _begins, parse)

    def _turns(self, block: Block[bytes]) -> Iterator[Turn]:
        for index, (place, raw) in enumerate(block):
            speaker = "AB"[index % 2]
            text = decode_line(raw, place, self.encoding)
            if self.speakers:
                speaker, mark, text = text.partition(": ")
                if not mark or not speaker.strip():
                    raise UserError(
                        f"{place}: no speaker; write `Name: text`, or set"
                        " data.corpus.speakers=false"
                    )
            yield Turn(speaker.strip(), text)


def _blank(line: bytes) -> bool:
    return not line.strip()


def _begins(block: Block[bytes], line: bytes) -> bool:
    return _blank(block[-1][1]) != _blank(line)
