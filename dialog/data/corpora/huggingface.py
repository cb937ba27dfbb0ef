"""Data sets of the Hugging Face Hub, and Parquet files as it keeps them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dialog.data.corpora.records import digests, records, refuse_calls, require_path, share, tells
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Turn
from dialog.data.downloads import offline
from dialog.data.files import LONGEST_LINE, find_names, refuse_bomb, require_file
from dialog.data.json_text import Json
from dialog.errors import UserError

if TYPE_CHECKING:
    from pyarrow import Array, RecordBatch

INSTALL = "install dialog-seq2seq[hf]"
SPEAKERS = ("role", "speaker", "from")
TEXTS = ("content", "text", "value")
SHARDS = ("{}.parquet", "{}-*.parquet", "data/{}-*.parquet", "{}/*.parquet")
"""Where the files of a split are: one file, the shards of a repository, those of the Hub's own conversion."""
BATCH, SIZE = 1000, 2**24
"""The most rows, and about the most bytes where a row has no more, that are in memory at a time."""
MEND = "give it as JSON lines"

Row = dict[str, Json]
Read = Row | UnicodeDecodeError
"""A row, or why one of its texts is none."""


class HuggingFace:
    """Reads Parquet files, a folder of them or one, or, with `dataset`, a data set of the Hub as a stream.

    A row is a dialogue. Its column `turns` is a list of texts ("A" and "B" alternate) or of messages with a `role`,
    `speaker` or `from` and a `content`, `text` or `value`; what `system` or `developer` say before the first turn are
    facts for everybody; malformed are such messages further on, those of tools, and calls of them. With `context` and
    `response`, those two columns are two turns. Ids are `<split>-<number of the row>`, or what a column says. One file,
    or a data set with the same name for all splits, is split by `dialog.data.corpora.records.share`. Of a data set no
    code is run, and its commit is named, so that it cannot change. Needs the extra `hf`.

    Args:
        path: The folder (`train.parquet`, `train-00000-of-00002.parquet`, `data/...`) or the file; not with `dataset`.
        dataset: The name on the Hub, like `owner/name`.
        config: Its configuration, where it has several.
        revision: Its commit, 40 hexadecimal digits, as the Hub's history of the data set shows.
        turns: The column of the turns.
        context: The column of what is said first, where a row is a pair.
        response: The column of the answer to it.
        id: The column of the id.
        train: What the training split is called there.
        validation: What the validation split is called there.
        test: What the test split is called there.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        dataset: str | None = None,
        config: str | None = None,
        revision: str | None = None,
        turns: str = "messages",
        context: str | None = None,
        response: str | None = None,
        id: str | None = None,
        train: str = "train",
        validation: str = "validation",
        test: str = "test",
    ) -> None:
        if len({train, validation, test}) == 2:
            raise UserError("corpus huggingface: two splits have the same name; give three, or one for all to be split")
        if (context is None) != (response is None):
            raise UserError("corpus huggingface: context or response is not set; give both columns, or neither")
        if dataset is None:
            path = require_path(path, "huggingface", "a folder of Parquet files (or set data.corpus.dataset)")
        elif Path(dataset).exists():
            raise UserError(f"corpus huggingface: {dataset} is here, not on the Hub; give it as data.path")
        elif not re.fullmatch(r"[0-9a-f]{40}", revision or ""):
            raise UserError(f"corpus huggingface: set revision to a commit of {dataset}, all 40 digits of it")
        self.path = Path(path) if path else Path()
        self.dataset, self.config, self.revision = dataset, config, revision
        self.names = dict(zip(SPLITS, (train, validation, test), strict=True))
        self.said = (context, response) if context and response else (turns,)
        self.id = id

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of its rows."""
        rows = enumerate(self._rows(split), start=1)
        items = ((place, (f"{split}-{number}", row)) for number, (place, row) in rows)
        found = records(items, lambda item, place: self._dialogue(*item, place))
        whole = len(set(self.names.values())) == 1 or (not self.dataset and self.path.is_file())
        return share(found, split) if whole else found

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256; or the data set's name, configuration and commit, which settle its rows."""
        if self.dataset:
            return {"dataset": self.dataset, "config": str(self.config), "revision": str(self.revision)}
        files = {file for split in SPLITS for file in self._files(split)}
        return digests(self.path.parent if self.path.is_file() else self.path, files)

    def _rows(self, split: str) -> Iterator[tuple[str, Read]]:
        if self.dataset:
            return _from_hub(self.dataset, self.config, self.revision, self.names[split])
        columns = [*self.said, *([self.id] if self.id else [])]
        return (row for file in self._files(split) for row in _from_parquet(file, columns))

    def _files(self, split: str) -> list[Path]:
        folder, name, hint = self.path, self.names[split], "it should hold dialogues as Parquet; set data.path"
        there = [[folder]]
        if folder.is_dir():
            found = (find_names(folder, shard.format(name)) for shard in SHARDS)
            there = [[folder / shard for shard in shards] for shards in found if shards]
        if len(there) > 1:
            raise UserError(f"{there[0][0]} and {there[1][0]} are both there; keep those that count")
        for file in there[0] if there else [folder / f"{name}.parquet"]:
            require_file(file, hint)
        return there[0]

    def _dialogue(self, id: str, row: Read, place: str) -> Dialogue:
        if isinstance(row, UnicodeDecodeError):
            raise UserError(f"{place}: a text is not UTF-8 ({row.reason}); mend or remove the row") from row
        for column in (*self.said, self.id or self.said[0]):
            if column not in row:
                raise UserError(f"{place}: no column {column!r} among {', '.join(row)}; name it in data.corpus")
        if self.id and row[self.id] is None:
            raise UserError(f"{place}: no {self.id!r}; give each row an id, or leave data.corpus.id out")
        said = row[self.said[0]] if len(self.said) == 1 else [row[column] for column in self.said]
        if not isinstance(said, list):
            raise UserError(f"{place}: {self.said[0]!r} is {type(said).__name__}, no list; name it in data.corpus")
        facts: list[Turn] = []
        turns: list[Turn] = []
        for number, message in enumerate(said, start=1):
            where = f"{place}: message {number}"
            speaker, text = _message(message, where) if isinstance(message, dict) else ("AB"[len(turns) % 2], message)
            if tells(speaker, where, first=not turns):
                facts.append(Turn("", text))
            else:
                turns.append(Turn(speaker, text))
        return Dialogue(str(row[self.id]) if self.id else id, tuple(turns), facts=tuple(facts), place=place)


def _message(message: Row, where: str) -> tuple[str, str]:
    refuse_calls(message, where)
    speaker, text = ([message[key] for key in keys if message.get(key) is not None] for keys in (SPEAKERS, TEXTS))
    if not speaker or not text:
        raise UserError(f"{where} is without {' or '.join(TEXTS if speaker else SPEAKERS)}; take it out")
    return speaker[0], text[0]


def _from_parquet(path: Path, columns: list[str]) -> Iterator[tuple[str, Read]]:
    """(file:number of the row, row) of a Parquet file, so many rows in memory at a time.

    Raises:
        UserError: with the file, when it is damaged, a row is longer than 64 MiB, or it gives too many times its size.
    """
    number = 0
    try:
        for batch in _batches(path, columns):
            if sum(map(_bytes, batch.columns)) > LONGEST_LINE:
                raise UserError(f"{path}:{number + 1}: a row of more than {LONGEST_LINE:,} bytes; split it")
            for row in _listed(batch):
                number += 1
                yield f"{path}:{number}", row
    except UserError:
        raise
    except ImportError as error:
        raise UserError(f"corpus huggingface needs pyarrow to read {path}; {INSTALL}") from error
    except Exception as error:  # the library's errors have nothing narrower in common
        raise UserError(f"{path} cannot be read as Parquet ({_line(error)}); get it again") from error
    if number == 0:
        raise UserError(f"{path} has no rows; it should hold dialogues")


def _batches(path: Path, columns: list[str]) -> Iterator[RecordBatch]:
    """The rows of a Parquet file, in batches of not many bytes: one row, if that has more."""
    from pyarrow import array, schema
    from pyarrow.parquet import ParquetFile

    given, packed = 0, path.stat().st_size
    with ParquetFile(path) as file:
        plain = file.schema_arrow
        known = columns if set(columns) <= set(plain.names) else None
        leaves = [file.schema.column(index) for index in range(len(file.schema))]
        groups = [file.metadata.row_group(index) for index in range(file.num_row_groups)]
    refuse_bomb(path, sum(group.total_byte_size for group in groups), packed, MEND)
    texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
    with ParquetFile(path, read_dictionary=texts) as file:  # what comes again and again is there once
        for index, group in enumerate(groups):
            rows = max(1, min(BATCH, SIZE * group.num_rows // max(1, group.total_byte_size)))
            for batch in file.iter_batches(rows, row_groups=[index], columns=known):
                size = sum(map(_bytes, batch.columns))
                given += size
                refuse_bomb(path, given, packed, MEND)
                fields = schema([plain.field(name) for name in batch.schema.names])
                rows_alone = (batch.take(array([row])) for row in range(batch.num_rows))
                for part in [batch] if size <= SIZE else rows_alone:
                    yield part.cast(fields)


def _bytes(column: Array) -> int:
    """The bytes of a column of Arrow once each of its texts is one of its own."""
    from pyarrow import compute, types

    if types.is_dictionary(column.type):
        lengths = compute.binary_length(column.dictionary).take(column.indices)
        return int(compute.sum(lengths).as_py() or 0)
    if types.is_struct(column.type):
        return sum(map(_bytes, column.flatten()))
    if types.is_list(column.type) or types.is_large_list(column.type):
        return _bytes(column.flatten())
    return int(column.nbytes)


def _listed(batch: RecordBatch) -> list[Read]:
    """The rows of a batch; one by one where a text is not UTF-8, which Parquet itself does not look at."""
    try:
        rows: list[Read] = batch.to_pylist()
    except UnicodeDecodeError as error:
        if batch.num_rows == 1:
            return [error]
        rows = [row for number in range(batch.num_rows) for row in _listed(batch.slice(number, 1))]
    return rows


def _from_hub(dataset: str, config: str | None, revision: str | None, name: str) -> Iterator[tuple[str, Row]]:
    """(data set:split:number of the row, row), as a stream, which no cache keeps."""
    if offline():
        raise UserError(
            f"{dataset} is on the Hub and DIALOG_OFFLINE forbids to read it; get its files, set data.path=DIR"
        )
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise UserError(f"corpus huggingface needs datasets to read {dataset}; {INSTALL}") from error
    try:
        rows = load_dataset(dataset, config, split=name, revision=revision, streaming=True)
        for number, row in enumerate(rows, start=1):
            yield f"{dataset}:{name}:{number}", row
    except Exception as error:  # the library's errors have nothing narrower in common
        raise UserError(
            f"{dataset} cannot be read from the Hub ({_line(error)}); are its name and split right?"
        ) from error


def _line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
