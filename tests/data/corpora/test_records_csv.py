"""Comma-separated values, row by row, against the library that writes them."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from dialog.data.corpora.records import csv_fields, csv_rows

FIELDS = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=8)


@given(
    rows=st.lists(st.lists(FIELDS, min_size=2, max_size=4), min_size=1, max_size=6),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_what_the_library_writes_comes_back_with_its_lines(rows: list[list[str]], quoting: int, end: str) -> None:
    text = io.StringIO()
    places = []
    for row in rows:
        places.append(text.getvalue().count("\n") + 1)
        csv.writer(text, quoting=quoting, lineterminator=end).writerow(row)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        path.write_bytes(text.getvalue().encode())
        found = [(place, csv_fields(row, place)) for place, row in csv_rows(path)]
    assert [fields for _, fields in found] == rows
    assert [place for place, _ in found] == [f"{path}:{place}" for place in places]
