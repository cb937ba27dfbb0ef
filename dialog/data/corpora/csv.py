"""Dialogues of your own, as a table of comma- or tab-separated values."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from dialog.data.corpora.records import Block, SplitFiles, block_records, numbered_lines, require_path
from dialog.data.dialogue import Dialogue, Entry, Turn
from dialog.errors import UserError


class Row(NamedTuple):
    """The cells of a row by their columns, or what is wrong with it."""

    cells: dict[str, str]
    trouble: str = ""


class Csv:
    """Reads a folder with `train.csv`, `validation.csv`, `test.csv` (or `.tsv`), or one file that is split by a rule.

    The first row names the columns. Either a row is a turn, and consecutive rows of one dialogue id are a dialogue; an
    id that comes again later is malformed. Or, with `context` and `response`, a row is a dialogue of two turns, with
    the id `<split>-<line number>`. A row that cannot be read makes the dialogue around or before it malformed. Quoted
    cells may hold line ends; blank rows are skipped. The rule for one file is that of
    `dialog.data.corpora.records.share`. Files may be compressed (.gz, .xz, .zst).

    Args:
        path: The folder or the file.
        dialogue: The column of the dialogue's id.
        speaker: The column of the turn's speaker; null where there is none: "A" and "B" then alternate.
        text: The column of what is said.
        context: The column of what is said first, where a row is a pair.
        response: The column of the answer to it.
        delimiter: What stands between two cells; null is a tab where the file's name says `.tsv`, else a comma.
        quotes: Whether a cell may be quoted; else quotes are text.
        encoding: Of the files; `utf-8:replace` reads U+FFFD for bytes that are not UTF-8.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        dialogue: str = "dialogue",
        speaker: str | None = "speaker",
        text: str = "text",
        context: str | None = None,
        response: str | None = None,
        delimiter: str | None = None,
        quotes: bool = True,
        encoding: str = "utf-8",
    ) -> None:
        path = require_path(path, "csv", "a folder with train.csv, validation.csv and test.csv, or a file")
        self.files = SplitFiles(path, (".csv", ".tsv"), "it should hold dialogues, the columns' names in its first row")
        if (context is None) != (response is None):
            raise UserError("corpus csv: context or response is not set; give both columns, or neither")
        if delimiter is not None and len(delimiter) != 1:
            raise UserError(f"corpus csv: delimiter is {delimiter!r}; give one character")
        self.dialogue, self.speaker, self.text = dialogue, speaker, text
        self.pair = (context, response) if context and response else ()
        self.delimiter = delimiter
        self.quotes = quotes
        self.encoding = encoding

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of its file."""
        seen: set[str] = set()

        def parse(block: Block[Row], place: str) -> Dialogue:
            for _, row in block:
                if row.trouble:
                    raise UserError(row.trouble)
            if self.pair:
                turns = tuple(
                    Turn(speaker, block[0][1].cells[column]) for speaker, column in zip("AB", self.pair, strict=True)
                )
                return Dialogue(f"{split}-{place.rpartition(':')[2]}", turns, place=place)
            id = block[0][1].cells[self.dialogue]
            if id in seen:
                raise UserError(f"{place}: the dialogue {id!r} was there before; put its rows one after the other")
            seen.add(id)
            return Dialogue(id, tuple(map(self._turn, range(len(block)), block)), place=place)

        return self.files.entries(split, lambda file: block_records(self._rows(file), self._begins, parse))

    def fingerprint(self) -> dict[str, str]:
        """Map the file or the three files to their SHA-256."""
        return self.files.fingerprint()

    def _turn(self, index: int, item: tuple[str, Row]) -> Turn:
        place, row = item
        speaker = "AB"[index % 2] if self.speaker is None else row.cells[self.speaker]
        if not speaker:
            raise UserError(f"{place}: no {self.speaker!r}; say who speaks, or set data.corpus.speaker=null")
        return Turn(speaker, row.cells[self.text])

    def _begins(self, block: Block[Row], row: Row) -> bool:
        if self.pair:
            return True
        ids = (before.cells[self.dialogue] for _, before in block if not before.trouble)
        return not row.trouble and row.cells[self.dialogue] != next(ids, None)

    def _rows(self, path: Path) -> Iterator[tuple[str, Row]]:
        """(file:line of its first line, row) for each but the first."""
        lines = (line + "\n" for _, line in numbered_lines(path, self.encoding))
        delimiter = self.delimiter or ("\t" if ".tsv" in path.suffixes else ",")
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if self.quotes else csv.QUOTE_NONE
        reader = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
        header: list[str] = []
        while True:
            place = f"{path}:{reader.line_num + 1}"
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield place, Row({}, f"{place}: {error}; mend the row, or its quotes")
                continue
            if not header:
                header = cells
                self._require_columns(header, place)
            elif len(cells) == len(header):
                yield place, Row(dict(zip(header, cells, strict=True)))
            elif cells:
                yield place, Row({}, f"{place}: {len(cells)} columns, but {len(header)} names in the first row")

    def _require_columns(self, header: list[str], place: str) -> None:
        for column in self.pair or (self.dialogue, self.speaker, self.text):
            if column is not None and header.count(column) != 1:
                found = "more than one column" if column in header else "no column"
                raise UserError(f"{place}: {found} {column!r} among {', '.join(header)}; name it in data.corpus")
