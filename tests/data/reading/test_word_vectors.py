"""Word vectors in the formats of word2vec and GloVe; malformed lines are counted."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dialog.data.reading.word_vectors import find_vectors
from dialog.errors import UserError

WORDS = st.text(st.characters(exclude_categories=("Z", "C")), min_size=1, max_size=5)
ROWS = st.dictionaries(
    WORDS, st.lists(st.floats(-9, 9, width=32), min_size=3, max_size=3), min_size=1, max_size=9
)


@settings(max_examples=40)
@given(rows=ROWS, header=st.booleans(), packed=st.booleans())
def test_written_vectors_are_read(
    tmp_path_factory: pytest.TempPathFactory,
    rows: dict[str, list[float]],
    header: bool,
    packed: bool,
) -> None:
    text = f"{len(rows)} 3\n" * header + "".join(
        f"{word} {' '.join(map(repr, row))}\n" for word, row in rows.items()
    )
    path = tmp_path_factory.mktemp("vectors") / ("v.txt.gz" if packed else "v.txt")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    result = find_vectors(path, 3, rows)
    assert (result.lines, result.malformed) == (len(rows), 0)
    assert {word: vector.tolist() for word, vector in result.vectors.items()} == rows


def test_the_first_line_of_a_requested_word_counts(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text("a 1 2\nb 3 4\na 5 6\n. . . 7 8\n", encoding="utf-8")
    result = find_vectors(path, 2, {"a", ". . ."})
    assert {word: vector.tolist() for word, vector in result.vectors.items()} == {
        "a": [1, 2],
        ". . .": [7, 8],
    }
    assert all(vector.dtype == np.float32 for vector in result.vectors.values())


def test_malformed_lines_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_bytes(b"a 1 2\nb 3\n\nc x 4\nd nan 1\n\xff 1 2\ne 1e999 2\nf 5 6\n")
    result = find_vectors(path, 2, set("abcdef"))
    assert result.vectors.keys() == {"a", "f"}
    assert (result.lines, result.malformed) == (8, 6)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("a 1 2 3\n", 3), ("10 50\na 1 2\n", 50), ("", 0), ("\n", 0), ("hello\n", 0)],
)
def test_vectors_of_another_size_are_an_error(tmp_path: Path, text: str, numbers: int) -> None:
    path = tmp_path / "v.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(
        UserError, match=rf"v\.txt:1: vectors of {numbers} numbers; model\.embedding_size is 2$"
    ):
        find_vectors(path, 2, {"a"})


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nothing\.txt does not exist; model\.vectors should name"):
        find_vectors(tmp_path / "nothing.txt", 2, {"a"})
