"""Parallel text for translation: line n of one file is the translation of line n of the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

from dialog.data.corpora.parsing.corpus_files import FileCorpus, require_path
from dialog.data.corpora.parsing.lines import byte_lines, decode_line, line_number
from dialog.data.corpora.parsing.records import records
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Turn
from dialog.data.reading.files import find_file
from dialog.errors import UserError

Line = tuple[str, bytes]
"""(file:line, raw line)."""


class Parallel(FileCorpus):
    """Read parallel text, `<part>.<language>`: a sentence a line, its translation in the same line
    of the other file.

    A pair is a dialogue of two turns; the speakers are the languages. Ids are
    `<split>-<line number>`. Only LF and CRLF end a line, so other Unicode separators cannot shift
    one file against the other. Files may be compressed (.gz, .xz, .zst).

    Args:
        path: The folder.
        source: Source language, the suffix of its files.
        target: Target language, the suffix of its files.
        train: Part for training.
        validation: Part for validation.
        test: Part for the test.

    Raises:
        UserError: source and target are equal; when reading, two files have different numbers of
            lines.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        source: str,
        target: str,
        train: str = "train",
        validation: str = "val",
        test: str = "test",
    ) -> None:
        content = f"a folder with {train}.{source}, {train}.{target}, ..."
        super().__init__(path, "parallel", content)
        if source == target:
            raise UserError(
                f"corpus parallel: source and target are both {source!r}; give two languages"
            )
        self.languages = (source, target)
        self.parts = dict(zip(SPLITS, (train, validation, test), strict=True))

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the pairs of a split in the order of its files."""
        return records(
            _pairs(*self._files(split)), lambda pair, place: self._dialogue(pair, split, place)
        )

    def files(self) -> Iterable[Path]:
        """Return the files of all splits."""
        return (file for split in SPLITS for file in self._files(split))

    def _files(self, split: str) -> list[Path]:
        hint = f"it should hold the {split} split, a sentence a line; set data.path=DIR"
        return [
            find_file(self.path, f"{self.parts[split]}.{language}", hint)
            for language in self.languages
        ]

    def _dialogue(self, pair: tuple[Line, Line], split: str, place: str) -> Dialogue:
        texts = (decode_line(raw, where) for where, raw in pair)
        turns = tuple(map(Turn, self.languages, texts))
        return Dialogue(f"{split}-{line_number(place)}", turns, place=place)


def multi30k(
    path: Path | None,
    *,
    source: str = "de",
    target: str = "en",
    train: str = "train",
    validation: str = "val",
    test: str = "test_2016_flickr",
) -> Parallel:
    """Read the raw text of Multi30k task 1 (Elliott et al. 2016,
    https://aclanthology.org/W16-3210), as `parallel`.
    """
    folder = require_path(
        path, "multi30k", f"a folder with {train}.{source}, {train}.{target}, ..."
    )
    return Parallel(
        folder, source=source, target=target, train=train, validation=validation, test=test
    )


def _pairs(source: Path, target: Path) -> Iterator[tuple[str, tuple[Line, Line]]]:
    """Yield (file:line of the source, (source line, target line)).

    Raises:
        UserError: the files have different numbers of lines.
    """
    pairs = zip_longest(byte_lines(source), byte_lines(target))
    for before, (left, right) in enumerate(pairs):
        if left is None or right is None:
            more = before + 1 + sum(1 for _ in pairs)
            counts = (before, more) if left is None else (more, before)
            raise UserError(
                f"{source} has {counts[0]:,} lines, but {target} {counts[1]:,}; line n of one"
                " should translate line n of the other"
            )
        yield left[0], (left, right)
