"""Read Parquet files row by row, within bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dialog.data.reading.files import LONGEST_LINE, check_decompressed_size
from dialog.data.reading.json_text import Json
from dialog.errors import UserError, install

if TYPE_CHECKING:
    from pyarrow import Array, RecordBatch, Schema
    from pyarrow.parquet import ColumnChunkMetaData

INSTALL = f"run {install('hf')}"
BATCH_ROWS = 1000
BATCH_BYTES = 2**24
"""Most rows of a batch, and about its most bytes; a larger row is a batch of its own."""
PLAIN_BATCH_ROWS = 128
"""Most rows of a batch if some columns are read without their dictionary: their size is not known
in advance.
"""
INDEX_BYTES = 4
SMALL_CHUNK = 2**23
"""Most bytes of a dictionary index, and of a column chunk whose dictionary is cheap to build."""
FIX = "give it as JSON lines"

Row = dict[str, Json]
RowOrError = Row | UnicodeDecodeError
"""A row, or the decoding error of one of its texts."""


class RowGroupSize(NamedTuple):
    """Numbers of rows and bytes of a row group."""

    rows: int
    bytes: int


def row_groups(path: Path) -> list[RowGroupSize]:
    """Return the row groups of a Parquet file; errors as in `read_rows`."""
    with _errors_as_user_errors(path):
        from pyarrow.parquet import read_metadata

        metadata = read_metadata(path)
        groups = (metadata.row_group(index) for index in range(metadata.num_row_groups))
        return [RowGroupSize(group.num_rows, group.total_byte_size) for group in groups]


def read_rows(
    path: Path, columns: list[str], part: tuple[int, int] | None = None
) -> Iterator[tuple[str, RowOrError]]:
    """Yield (file:row number, row) for the rows of a Parquet file, or of its row groups
    [start:end], one batch in memory at a time.

    Raises:
        UserError: with the path; the file is damaged, has a row of more than 64 MiB, or is a
            decompression bomb.
    """
    start = 0 if part is None else sum(group.rows for group in row_groups(path)[: part[0]])
    number = start
    with _errors_as_user_errors(path):
        for batch, plain in _batches(path, columns, part):
            if sum(map(_decoded_bytes, batch.columns)) > LONGEST_LINE:
                raise UserError(
                    f"{path}:{number + 1}: a row of more than {LONGEST_LINE:,} bytes; split it"
                )
            for row in _python_rows(_without_dictionaries(batch, plain)):
                number += 1
                yield f"{path}:{number}", row
    if number == 0:
        raise UserError(f"{path} has no rows; it should hold dialogues")


@contextmanager
def _errors_as_user_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except UserError:
        raise
    except ImportError as error:
        raise UserError(f"{path} needs pyarrow to be read; {INSTALL}") from error
    except Exception as error:  # the library's errors share no narrower class
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UserError(f"{path} cannot be read as Parquet ({reason}); get it again") from error


def _batches(
    path: Path, columns: list[str], part: tuple[int, int] | None
) -> Iterator[tuple[RecordBatch, Schema]]:
    """Yield batches of bounded size, each with the schema that its columns have without
    dictionaries.
    """
    from pyarrow import array
    from pyarrow.parquet import ParquetFile

    decoded = 0
    packed = path.stat().st_size
    with ParquetFile(path) as file:
        plain = file.schema_arrow
        metadata = file.metadata
        selected = columns if set(columns) <= set(plain.names) else None
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    check_decompressed_size(path, sum(group.total_byte_size for group in groups), packed, FIX)
    for index in range(len(groups)) if part is None else range(*part):
        group = groups[index]
        chunks = [group.column(number) for number in range(group.num_columns)]
        texts = [
            chunk
            for chunk in chunks
            if chunk.physical_type == "BYTE_ARRAY" and chunk.has_dictionary_page
        ]
        as_dictionary = [chunk.path_in_schema for chunk in texts if _keeps_dictionary(chunk)]
        most = BATCH_ROWS if len(as_dictionary) == len(texts) else PLAIN_BATCH_ROWS
        count = max(1, min(most, BATCH_BYTES * group.num_rows // max(1, group.total_byte_size)))
        with ParquetFile(path, metadata=metadata, read_dictionary=as_dictionary) as file:
            for batch in file.iter_batches(count, row_groups=[index], columns=selected):
                size = sum(map(_decoded_bytes, batch.columns))
                decoded += size
                check_decompressed_size(path, decoded, packed, FIX)
                single_rows = (batch.take(array([row])) for row in range(batch.num_rows))
                for part in [batch] if size <= BATCH_BYTES else single_rows:
                    yield part, plain


def _keeps_dictionary(chunk: ColumnChunkMetaData) -> bool:
    """Return whether to read a dictionary-encoded chunk as a dictionary, so that repeated texts are
    held once.

    A writer whose dictionary grows too large continues with plain texts. Building a dictionary of
    those takes more memory and time than the texts themselves, unless they are few.
    """
    pages = chunk.total_compressed_size - (chunk.data_page_offset - chunk.dictionary_page_offset)
    return bool(
        pages <= INDEX_BYTES * chunk.num_values or chunk.total_uncompressed_size <= SMALL_CHUNK
    )


def _without_dictionaries(batch: RecordBatch, plain: Schema) -> RecordBatch:
    """Cast dictionary columns to plain texts; unchanged if Arrow cannot cast, which makes
    conversion slower.
    """
    from pyarrow import ArrowNotImplementedError, schema

    fields = schema([plain.field(name) for name in batch.schema.names])
    try:
        return batch if batch.schema.equals(fields) else batch.cast(fields)
    except ArrowNotImplementedError:
        return batch


def _decoded_bytes(column: Array) -> int:
    """Return the size of an Arrow column after its dictionaries are decoded."""
    from pyarrow import compute, types

    if types.is_dictionary(column.type):
        lengths = compute.binary_length(column.dictionary).take(column.indices)
        return int(compute.sum(lengths).as_py() or 0)
    if types.is_struct(column.type):
        return sum(map(_decoded_bytes, column.flatten()))
    lists = (
        types.is_list,
        types.is_large_list,
        types.is_fixed_size_list,
        types.is_list_view,
        types.is_large_list_view,
    )
    if any(is_list(column.type) for is_list in lists):
        return _decoded_bytes(column.flatten())
    return int(column.nbytes)


def _python_rows(batch: RecordBatch) -> list[RowOrError]:
    """Convert a batch to Python rows; one by one if a text is not UTF-8, which Parquet does not
    check.
    """
    try:
        rows: list[RowOrError] = batch.to_pylist()
    except UnicodeDecodeError as error:
        if batch.num_rows == 1:
            return [error]
        rows = [
            row for number in range(batch.num_rows) for row in _python_rows(batch.slice(number, 1))
        ]
    return rows
