"""Dialogues as a table of comma- or tab-separated values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from dialog.data.corpora.parsing.corpus_files import SplitFileCorpus
from dialog.data.corpora.parsing.json_table import is_json_table, json_table
from dialog.data.corpora.parsing.lines import line_number
from dialog.data.corpora.parsing.records import Block, block_records
from dialog.data.corpora.parsing.tables import Row, RowError, cells, table
from dialog.data.dialogue import Dialogue, Entry, Turn
from dialog.errors import UserError

NO_ID = ""
MOST_HELD = 1000
"""Consecutive rows without an id that are held in memory until the next id; more are records of
their own.
"""


class Csv(SplitFileCorpus):
    """Read tables: `train.csv`, `validation.csv` and `test.csv` (or `.tsv`), or one file. A row may
    also be a JSON object, one a line of a `.jsonl` file or all in an array NAME.json; its keys, or
    paths of keys such as `user.name`, are then the columns.

    The first row names the columns, in any case. By default a row is a turn, and consecutive rows
    with one dialogue id are a dialogue; an id that occurs again later is malformed. A row without
    an id makes the dialogue of the rows around it malformed; between two dialogues, it is a
    malformed record of its own. With `context` and `response`, a row is a dialogue of two turns
    with the id `<split>-<line number>`. Quoted cells may hold line ends. Blank rows are skipped. A
    row that cannot be read makes a dialogue malformed: the one whose id its first line seems to
    hold, else the one before; see `parsing.tables.table` for wrong quotes. One file is divided by
    `parsing.splits.split_by_hash`. Files may be compressed (.gz, .xz, .zst).

    Args:
        path: The folder or the file.
        dialogue: Column of the dialogue id.
        speaker: Column of the speaker; null lets "A" and "B" alternate.
        text: Column of the turn's text.
        context: Column of the first turn, if a row is a pair.
        response: Column of the second turn.
        delimiter: Separator of cells; null is a tab for `.tsv` files, else the first of comma,
            semicolon and tab with which the first row names the columns.
        interleaved: Rows of a dialogue need not be consecutive, such as in a log of several chats
            at a time; the file is then read into memory.
        quotes: Read quoted cells; false treats quotes as text.
        encoding: Encoding of the files; `utf-8:replace` reads bytes that are not UTF-8 as U+FFFD. A
            file that starts with the byte order mark of UTF-16, as Excel writes, is read as UTF-16.
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
        interleaved: bool = False,
        quotes: bool = True,
        encoding: str = "utf-8",
    ) -> None:
        hint = "it should hold dialogues, with column names in its first row"
        super().__init__(path, "csv", (".csv", ".tsv", ".jsonl"), hint)
        if (context is None) != (response is None):
            raise UserError(
                "corpus csv: only one of context and response is set; set both or neither"
            )
        if delimiter is not None and len(delimiter) != 1:
            raise UserError(f"corpus csv: delimiter is {delimiter!r}; give one character")
        self.dialogue = dialogue
        self.speaker = speaker
        self.text = text
        self.pair = (context, response) if context and response else ()
        self.delimiter = delimiter
        self.interleaved = interleaved
        self.quotes = quotes
        self.encoding = encoding

    def read(self, file: Path, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a file."""
        seen: set[str] = set()

        def parse(block: Block[Row], place: str) -> Dialogue:
            rows = [cells(row) for _, row in block]
            if self.pair:
                turns = tuple(
                    Turn(speaker, rows[0][column])
                    for speaker, column in zip("AB", self.pair, strict=True)
                )
                return Dialogue(f"{split}-{line_number(place)}", turns, place=place)
            id = rows[0][self.dialogue]
            if id in seen:
                raise UserError(
                    f"{place}: dialogue {id!r} has earlier rows; make its rows consecutive"
                )
            seen.add(id)
            return Dialogue(id, tuple(map(self._turn, range(len(block)), block)), place=place)

        return block_records(self._rows(file), self._begins, parse)

    def _turn(self, index: int, item: tuple[str, Row]) -> Turn:
        place, row = item
        speaker = "AB"[index % 2] if self.speaker is None else cells(row)[self.speaker]
        if not speaker:
            raise UserError(
                f"{place}: no {self.speaker!r}; add a speaker, or set data.corpus.speaker=null"
            )
        return Turn(speaker, cells(row)[self.text])

    def _begins(self, block: Block[Row], row: Row) -> bool:
        if self.pair:
            return True
        next_id = self._id(row)
        if next_id in (None, NO_ID):
            return next_id == NO_ID
        ids = (self._id(before) for _, before in block)
        return next((id for id in ids if id is not None), next_id) != next_id

    def _id(self, row: Row) -> str | None:
        """Return the dialogue id; of an unreadable row, the one in its first line if that has more
        than one cell.
        """
        if isinstance(row, RowError):
            id = row.cells.get(self.dialogue) if len(row.cells) > 1 else None
        else:
            id = row[self.dialogue]
        return NO_ID if id is not None and not id.strip() else id

    def _with_ids(self, rows: Iterable[tuple[str, Row]]) -> Iterator[tuple[str, Row]]:
        """Replace each row without an id by an error, with the id of the rows before and after it
        if they agree.
        """
        previous: str | None = None
        held: Block[Row] = []
        for place, row in rows:
            id = self._id(row)
            held.append((place, row))
            if id in (None, NO_ID) and len(held) <= MOST_HELD:
                continue
            around = id if id == previous and id is not None else NO_ID
            yield from ((where, self._error(where, before, around)) for where, before in held)
            previous = id
            held.clear()
        yield from ((where, self._error(where, before, NO_ID)) for where, before in held)

    def _error(self, place: str, row: Row, around: str) -> Row:
        """Return the error of a row without an id, of the dialogue `around` it; return any other
        row unchanged.
        """
        if self._id(row) != NO_ID:
            return row
        if isinstance(row, RowError):
            return RowError(str(row), {**row.cells, self.dialogue: around})
        problem = f"{place}: {self.dialogue!r} is empty; give each row the id of its dialogue"
        return RowError(problem, {**row, self.dialogue: around})

    def _rows(self, path: Path) -> Iterator[tuple[str, Row]]:
        delimiter = self.delimiter or ("\t" if ".tsv" in path.suffixes else None)
        turn = (self.dialogue, self.speaker, self.text)
        columns = self.pair or [column for column in turn if column is not None]
        if is_json_table(path):
            rows = json_table(path, columns, self.encoding)
        else:
            rows = table(
                path, columns, delimiter=delimiter, quotes=self.quotes, encoding=self.encoding
            )
        if self.pair:
            return rows
        return self._gathered(rows) if self.interleaved else self._with_ids(rows)

    def _gathered(self, rows: Iterable[tuple[str, Row]]) -> Iterator[tuple[str, Row]]:
        """Yield the rows of each dialogue together, dialogues in the order of their first rows; a
        row without an id is a malformed record of its own.
        """
        blocks: dict[str, Block[Row]] = {}
        for place, row in rows:
            id = self._id(row)
            if id is None:
                row = RowError(str(row), {self.dialogue: NO_ID, self.text: ""})
            key = id or f"{NO_ID}{place}"
            blocks.setdefault(key, []).append((place, self._error(place, row, NO_ID)))
        for block in blocks.values():
            yield from block
