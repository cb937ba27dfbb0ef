"""Tables, row by row, against the library that writes them."""

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
def test_what_the_library_writes_comes_back_with_its_lines(
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
        found = list(table(path, ["b\nb", "a"], delimiter=delimiter))
    assert [cells(row) for _, row in found] == [dict(zip(["a", "b\nb", "c"], row, strict=True)) for row in rows]
    assert [place for place, _ in found] == [f"{path}:{place}" for place in places[1:]]


def test_a_quote_in_a_cell_without_quotes_is_text_and_takes_no_row_with_it(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text('size,text\n5" tall,a\n6,b\n7" wide,"c, d"\n')
    found = [cells(row) for _, row in table(tmp_path / "table.csv")]
    assert found == [{"size": '5" tall', "text": "a"}, {"size": "6", "text": "b"}, {"size": '7" wide', "text": "c, d"}]


def test_a_bad_row_is_raised_where_it_is_read_and_a_bad_first_row_at_once(tmp_path: Path) -> None:
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


def test_the_names_of_columns_are_cut_where_they_are_many(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("x," * 100_000 + "\n")
    with pytest.raises(UserError, match=r"table\.csv:1: no column 'a' among x, .* \.\.\. .*; the first row") as caught:
        next(table(tmp_path / "table.csv", ["a"]))
    assert len(str(caught.value)) < 1000
