"""Tables: rows written by the csv module, wrong quotes and wrong columns."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.data.corpora.parsing.tables import cells, table
from dialog.errors import UserError

FIELDS = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=8)
WIDTH = 3


@given(
    rows=st.lists(st.lists(FIELDS, min_size=WIDTH, max_size=WIDTH), max_size=6),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    delimiter=st.sampled_from([",", "\t", ";"]),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_tables_of_the_csv_module_are_read_back(
    rows: list[list[str]], quoting: int, delimiter: str, end: str
) -> None:
    text = io.StringIO()
    places = []
    for row in [["a", "b\nb", "c"], *rows]:
        places.append(text.getvalue().count("\n") + 1)
        csv.writer(text, quoting=quoting, delimiter=delimiter, lineterminator=end).writerow(row)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        path.write_bytes(text.getvalue().encode())
        rows_read = list(table(path, ["b\nb", "a"], delimiter=delimiter))
    assert [cells(row) for _, row in rows_read] == [
        dict(zip(["a", "b\nb", "c"], row, strict=True)) for row in rows
    ]
    assert [place for place, _ in rows_read] == [f"{path}:{place}" for place in places[1:]]


def test_a_quote_inside_an_unquoted_cell_is_text(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text('size,text\n5" tall,a\n6,b\n7" wide,"c, d"\n')
    rows_read = [cells(row) for _, row in table(tmp_path / "table.csv")]
    assert rows_read == [
        {"size": '5" tall', "text": "a"},
        {"size": "6", "text": "b"},
        {"size": '7" wide', "text": "c, d"},
    ]


def test_a_bad_first_row_raises_and_other_bad_rows_are_yielded(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text('a,b\n1,"2"3\n\n4\n5,6\n')
    bad, short, good = (row for _, row in table(tmp_path / "table.csv"))
    with pytest.raises(UserError, match=r"table\.csv:2: .*correct the row or its quotes"):
        cells(bad)
    with pytest.raises(UserError, match=r"table\.csv:4: 1 columns, but 2 names"):
        cells(short)
    assert cells(good) == {"a": "5", "b": "6"}
    (tmp_path / "table.csv").write_text('"a"b,c\n1,2\n')
    with pytest.raises(UserError, match=r"table\.csv:1: .*correct the row or its quotes"):
        next(table(tmp_path / "table.csv"))


def test_errors_truncate_long_lists_of_columns(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("x," * 100_000 + "\n")
    with pytest.raises(
        UserError, match=r"table\.csv:1: no column 'a' among x, .* \.\.\. .*; the first row"
    ) as caught:
        next(table(tmp_path / "table.csv", ["a"]))
    assert len(str(caught.value)) < 1000
