"""Dialogues of your own, as a table of comma- or tab-separated values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dialog.data.corpora.parsing.records import Block, SplitFiles, block_records, require_path
from dialog.data.corpora.parsing.tables import Row, RowError, cells, table
from dialog.data.dialogue import Dialogue, Entry, Turn
from dialog.errors import UserError


class Csv:
    """Reads a folder with `train.csv`, `validation.csv`, `test.csv` (or `.tsv`), or one file that is split by a rule.

    The first row names the columns. Either a row is a turn, and consecutive rows of one dialogue id are a dialogue; an
    id that comes again later is malformed. Or, with `context` and `response`, a row is a dialogue of two turns, with
    the id `<split>-<line number>`. A row that cannot be read makes the dialogue malformed whose id its first
    line seems to have, else the one before. Quoted cells may hold line ends; where quotes are wrong, see
    `parsing.tables.table`. Blank rows are skipped. The rule for one file is that of
    `parsing.records.share`. Files may be compressed (.gz, .xz, .zst).

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
        self.delimiter, self.quotes, self.encoding = delimiter, quotes, encoding

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of its file."""
        seen: set[str] = set()

        def parse(block: Block[Row], place: str) -> Dialogue:
            rows = [cells(row) for _, row in block]
            if self.pair:
                turns = tuple(Turn(speaker, rows[0][column]) for speaker, column in zip("AB", self.pair, strict=True))
                return Dialogue(f"{split}-{place.rpartition(':')[2]}", turns, place=place)
            id = rows[0][self.dialogue]
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
        speaker = "AB"[index % 2] if self.speaker is None else cells(row)[self.speaker]
        if not speaker:
            raise UserError(f"{place}: no {self.speaker!r}; say who speaks, or set data.corpus.speaker=null")
        return Turn(speaker, cells(row)[self.text])

    def _begins(self, block: Block[Row], row: Row) -> bool:
        if self.pair:
            return True
        known, seeming = next(filter(None, (self._id(before) for _, before in block)), None), self._id(row)
        return None not in (known, seeming) and seeming != known

    def _id(self, row: Row) -> str | None:
        """What a row says; of one that cannot be read, what it seems to say if it seems to say more."""
        if isinstance(row, RowError):
            return row.cells.get(self.dialogue) if len(row.cells) > 1 else None
        return row[self.dialogue]

    def _rows(self, path: Path) -> Iterator[tuple[str, Row]]:
        delimiter = self.delimiter or ("\t" if ".tsv" in path.suffixes else ",")
        columns = self.pair or (self.dialogue, *([self.speaker] if self.speaker is not None else []), self.text)
        return table(path, columns, delimiter=delimiter, quotes=self.quotes, encoding=self.encoding)
