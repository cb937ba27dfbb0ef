"""Parquet files made here: how they are read shows in memory alone, what is read does not change."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from dialog.data.reading.parquet import Row, _keeps_dictionary, read_rows

RANDOM = random.Random(1)
ONCE = [RANDOM.randbytes(90).hex() for _ in range(60000)]
AGAIN = [ONCE[number % 500] for number in range(60000)]
TEXT = pyarrow.string()


def write(file: Path, said: list[list[object]], kind: pyarrow.DataType | None = None, **settings: object) -> list[Row]:
    parquet.write_table(pyarrow.table({"turns": pyarrow.array(said, kind), "n": range(len(said))}), file, **settings)
    return [{"turns": each} for each in said]


def read(file: Path) -> list[object]:
    return [row for _, row in read_rows(file, ["turns"])]


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("repeated", [False, True])
def test_a_dictionary_is_read_as_one_where_its_texts_come_again(
    tmp_path: Path, repeated: bool, compression: str
) -> None:
    file = tmp_path / "x.parquet"
    expected = write(file, [[text] for text in (AGAIN if repeated else ONCE)], compression=compression)
    chunk = parquet.ParquetFile(file).metadata.row_group(0).column(0)
    assert chunk.has_dictionary_page
    assert _keeps_dictionary(chunk) == repeated
    assert read(file) == expected


def test_texts_that_are_there_once_do_not_make_a_dictionary_of_a_large_group(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    write(file, [[text] for text in ONCE])
    before = pyarrow.total_allocated_bytes()
    peak = max(pyarrow.total_allocated_bytes() for _ in read_rows(file, ["turns"]))
    assert peak - before < 1.5 * file.stat().st_size


@pytest.mark.parametrize(
    "kind",
    [
        pyarrow.list_(pyarrow.string_view()),
        pyarrow.list_view(TEXT),
        pyarrow.large_list_view(TEXT),
        pyarrow.list_(TEXT, 2),
        pyarrow.large_list(pyarrow.large_string()),
        pyarrow.list_(pyarrow.dictionary(pyarrow.int32(), TEXT)),
    ],
    ids=str,
)
def test_every_kind_of_list_and_of_text_is_read(tmp_path: Path, kind: pyarrow.DataType) -> None:
    turns = random.Random(1).choices(["Hi !", "Hello .", "Who ?"], k=6000)
    said: list[list[object]] = [[*pair] for pair in zip(turns[::2], turns[1::2], strict=True)]
    expected = write(tmp_path / "x.parquet", said, kind)
    assert read(tmp_path / "x.parquet") == expected


def test_groups_that_differ_are_read_alike(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    expected = write(file, [[text, "Hi"] for text in [*AGAIN, *ONCE]], row_group_size=60000)
    assert read(file) == expected
