"""Parquet files, a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dialog.data.files import LONGEST_LINE, refuse_bomb
from dialog.data.json_text import Json
from dialog.errors import UserError

if TYPE_CHECKING:
    from pyarrow import Array, RecordBatch

INSTALL = "install dialog-seq2seq[hf]"
BATCH, SIZE = 1000, 2**24
"""The most rows, and about the most bytes where a row has no more, that are in memory at a time."""
MEND = "give it as JSON lines"

Row = dict[str, Json]
Read = Row | UnicodeDecodeError
"""A row, or why one of its texts is none."""


def rows(path: Path, columns: list[str]) -> Iterator[tuple[str, Read]]:
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
        raise UserError(f"{path} needs pyarrow to be read; {INSTALL}") from error
    except Exception as error:  # the library's errors have nothing narrower in common
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UserError(f"{path} cannot be read as Parquet ({reason}); get it again") from error
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
            count = max(1, min(BATCH, SIZE * group.num_rows // max(1, group.total_byte_size)))
            for batch in file.iter_batches(count, row_groups=[index], columns=known):
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
        found: list[Read] = batch.to_pylist()
    except UnicodeDecodeError as error:
        if batch.num_rows == 1:
            return [error]
        found = [row for number in range(batch.num_rows) for row in _listed(batch.slice(number, 1))]
    return found
