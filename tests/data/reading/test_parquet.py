"""Parquet files written here: the memory that reading takes depends on the file, the rows do
not.
"""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet as pyarrow_parquet

from dialog.data.reading import parquet
from dialog.data.reading.parquet import Row, read_rows

RANDOM = random.Random(1)
DISTINCT = [RANDOM.randbytes(90).hex() for _ in range(12_000)]
REPEATED = [DISTINCT[number % 100] for number in range(12_000)]
TEXT = pyarrow.string()


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of these tests are small; so are the limits."""
    monkeypatch.setattr(parquet, "SMALL_CHUNK", 2**20)


def write(
    file: Path, turns: list[list[object]], kind: pyarrow.DataType | None = None, **settings: object
) -> list[Row]:
    table = pyarrow.table({"turns": pyarrow.array(turns, kind), "n": range(len(turns))})
    pyarrow_parquet.write_table(table, file, dictionary_pagesize_limit=2**17, **settings)
    return [{"turns": texts} for texts in turns]


def read(file: Path) -> list[object]:
    return [row for _, row in read_rows(file, ["turns"])]


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("repeated", [False, True])
def test_dictionaries_of_repeated_texts_are_kept(
    tmp_path: Path, repeated: bool, compression: str
) -> None:
    file = tmp_path / "x.parquet"
    expected = write(
        file, [[text] for text in (REPEATED if repeated else DISTINCT)], compression=compression
    )
    chunk = pyarrow_parquet.ParquetFile(file).metadata.row_group(0).column(0)
    assert chunk.has_dictionary_page
    assert parquet._keeps_dictionary(chunk) == repeated
    assert read(file) == expected


def test_distinct_texts_are_read_in_little_memory(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    write(file, [[text] for text in DISTINCT])
    before = pyarrow.total_allocated_bytes()
    peak = max(pyarrow.total_allocated_bytes() for _ in read_rows(file, ["turns"]))
    assert peak - before < 2.5 * file.stat().st_size


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
def test_every_type_of_list_and_text_is_read(tmp_path: Path, kind: pyarrow.DataType) -> None:
    texts = random.Random(1).choices(["Hi !", "Hello .", "Who ?"], k=6000)
    turns: list[list[object]] = [[*pair] for pair in zip(texts[::2], texts[1::2], strict=True)]
    expected = write(tmp_path / "x.parquet", turns, kind)
    assert read(tmp_path / "x.parquet") == expected


def test_row_groups_with_and_without_dictionaries(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    expected = write(file, [[text, "Hi"] for text in [*REPEATED, *DISTINCT]], row_group_size=12_000)
    assert read(file) == expected
