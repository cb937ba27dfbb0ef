"""Parquet files, a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dialog.data.reading.files import LONGEST_LINE, refuse_bomb
from dialog.data.reading.json_text import Json
from dialog.errors import UserError

if TYPE_CHECKING:
    from pyarrow import Array, RecordBatch, Schema
    from pyarrow.parquet import ColumnChunkMetaData

INSTALL = "install dialog-seq2seq[hf]"
BATCH, SIZE = 1000, 2**24
"""The most rows, and about the most bytes where a row has no more, that are in memory at a time."""
FEW = 128
"""The most rows where texts that come again may be among others, so that the size of these rows is not known before."""
INDEX, SMALL = 4, 2**23
"""The most bytes of an index, and of a chunk of a column of which a dictionary is soon made."""
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
        for batch, plain in _batches(path, columns):
            if sum(map(_bytes, batch.columns)) > LONGEST_LINE:
                raise UserError(f"{path}:{number + 1}: a row of more than {LONGEST_LINE:,} bytes; split it")
            for row in _listed(_undone(batch, plain)):
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


def _batches(path: Path, columns: list[str]) -> Iterator[tuple[RecordBatch, Schema]]:
    """The rows of a Parquet file, in batches of not many bytes: one row, if that has more; with their plain schema."""
    from pyarrow import array
    from pyarrow.parquet import ParquetFile

    given, packed = 0, path.stat().st_size
    with ParquetFile(path) as file:
        plain, about = file.schema_arrow, file.metadata
        known = columns if set(columns) <= set(plain.names) else None
        groups = [about.row_group(index) for index in range(about.num_row_groups)]
    refuse_bomb(path, sum(group.total_byte_size for group in groups), packed, MEND)
    for index, group in enumerate(groups):
        chunks = [group.column(number) for number in range(group.num_columns)]
        texts = [chunk for chunk in chunks if chunk.physical_type == "BYTE_ARRAY" and chunk.has_dictionary_page]
        again = [chunk.path_in_schema for chunk in texts if _repeats(chunk)]
        most = BATCH if len(again) == len(texts) else FEW
        count = max(1, min(most, SIZE * group.num_rows // max(1, group.total_byte_size)))
        with ParquetFile(path, metadata=about, read_dictionary=again) as file:
            for batch in file.iter_batches(count, row_groups=[index], columns=known):
                size = sum(map(_bytes, batch.columns))
                given += size
                refuse_bomb(path, given, packed, MEND)
                rows_alone = (batch.take(array([row])) for row in range(batch.num_rows))
                for part in [batch] if size <= SIZE else rows_alone:
                    yield part, plain


def _repeats(chunk: ColumnChunkMetaData) -> bool:
    """Whether a chunk of texts with a dictionary is best read as one, where what comes again is there once.

    A writer whose dictionary grows too large goes on with the texts themselves; to make a dictionary of those takes
    more memory and time than they do, unless they are few.
    """
    pages = chunk.total_compressed_size - (chunk.data_page_offset - chunk.dictionary_page_offset)
    return bool(pages <= INDEX * chunk.num_values or chunk.total_uncompressed_size <= SMALL)


def _undone(batch: RecordBatch, plain: Schema) -> RecordBatch:
    """A batch with texts for the dictionaries it was read with; as it is where Arrow cannot: that is slower to list."""
    from pyarrow import ArrowNotImplementedError, schema

    fields = schema([plain.field(name) for name in batch.schema.names])
    try:
        return batch if batch.schema.equals(fields) else batch.cast(fields)
    except ArrowNotImplementedError:
        return batch


def _bytes(column: Array) -> int:
    """The bytes of a column of Arrow once each of its texts is one of its own."""
    from pyarrow import compute, types

    if types.is_dictionary(column.type):
        lengths = compute.binary_length(column.dictionary).take(column.indices)
        return int(compute.sum(lengths).as_py() or 0)
    if types.is_struct(column.type):
        return sum(map(_bytes, column.flatten()))
    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view)
    if any(each(column.type) for each in lists):
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
