"""Cornell Movie-Dialogs: two files with fields between +++$+++, in the encodings that are about."""

from __future__ import annotations

from pathlib import Path

import pytest

from dialog.data.corpora.cornell import Cornell
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Malformed, Turn

LINES = """\
L2 +++$+++ u1 +++$+++ m0 +++$+++ BO +++$+++ Hello .
L1 +++$+++ u0 +++$+++ m0 +++$+++ ANNA +++$+++ Hi !
L3 +++$+++ u0 +++$+++ m0 +++$+++ ANNA +++$+++ {}
L4 +++$+++ u0 +++$+++ m0 +++$+++ ANNA +++$+++
L6 +++$+++ u2 +++$+++ m1 +++$+++ EVE +++$+++ one +++$+++ two
L5 +++$+++ u3 +++$+++ m1 +++$+++ CY +++$+++ Three .
""".format("")
MOVIE = "u0 +++$+++ u1 +++$+++ m0 +++$+++ "


def conversations(folder: Path, lines: bytes, *told: str) -> list[Entry]:
    (folder / "movie_lines.txt").write_bytes(lines)
    (folder / "movie_conversations.txt").write_text("".join(f"{line}\n" for line in told))
    return [entry for split in SPLITS for entry in Cornell(folder).dialogues(split)]


def test_a_conversation_is_the_lines_that_it_lists(tmp_path: Path) -> None:
    (found,) = conversations(tmp_path, LINES.encode(), f"{MOVIE}['L1', 'L2', 'L3', 'L4']")
    assert isinstance(found, Dialogue)
    assert found.id == "L1"
    assert found.turns == (Turn("u0", "Hi !"), Turn("u1", "Hello ."), Turn("u0", ""), Turn("u0", ""))
    assert found.meta == {"author": "m0", "names": ["ANNA", "BO", "ANNA", "ANNA"]}
    assert found.place == f"{tmp_path / 'movie_conversations.txt'}:1"


@pytest.mark.parametrize(
    ("told", "file", "message"),
    [
        (f"{MOVIE}['L1', 'L9']", "movie_conversations.txt:1: ", "no line L9"),
        (f"{MOVIE}['L5', 'L6']", "movie_lines.txt:5: ", "6 fields"),
        (f"{MOVIE}['L1', 'L2'", "movie_conversations.txt:1: ", "is not a list of lines"),
        (f"{MOVIE}[]", "movie_conversations.txt:1: ", "is not a list of lines"),
        (f"{MOVIE}__import__('os')", "movie_conversations.txt:1: ", "is not a list of lines"),
        ("u0 +++$+++ u1 +++$+++ ['L1', 'L2']", "movie_conversations.txt:1: ", "3 fields"),
        ("", "movie_conversations.txt:1: ", "1 fields"),
    ],
)
def test_what_is_malformed_is_named_and_the_rest_is_read(tmp_path: Path, told: str, file: str, message: str) -> None:
    bad, good = sorted(
        conversations(tmp_path, LINES.encode(), told, f"{MOVIE}['L1', 'L2']"),
        key=lambda entry: isinstance(entry, Dialogue),
    )
    assert isinstance(bad, Malformed)
    assert file in bad.message
    assert message in bad.message
    assert isinstance(good, Dialogue)


def test_two_lines_of_one_id_are_malformed_unless_they_are_equal(tmp_path: Path) -> None:
    same = LINES.splitlines(keepends=True)[0]
    other = same.replace("Hello", "Goodbye")
    told = f"{MOVIE}['L1', 'L2']"
    for copies in (1, 2):
        (found,) = conversations(tmp_path, (LINES + same * copies).encode(), told)
        assert isinstance(found, Dialogue)
        (bad,) = conversations(tmp_path, (LINES + other * copies).encode(), told)
        assert isinstance(bad, Malformed)
        assert "movie_lines.txt:" in bad.message
        assert "the same id" in bad.message


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_copies_in_either_encoding_read_the_same(tmp_path: Path, encoding: str) -> None:
    lines = LINES.replace("Hi !", "Un café – s’il vous plaît").encode(encoding)
    (found,) = conversations(tmp_path, lines, f"{MOVIE}['L1', 'L2']")
    assert isinstance(found, Dialogue)
    assert found.turns[0].text == "Un café – s’il vous plaît"


def test_a_byte_without_a_sign_in_windows_1252_is_read_as_iso_8859_1(tmp_path: Path) -> None:
    (found,) = conversations(tmp_path, LINES.encode().replace(b"Hi", b"H\x81\xe9"), f"{MOVIE}['L1', 'L2']")
    assert isinstance(found, Dialogue)
    assert found.turns[0].text == "H\x81é !"


def test_a_movie_is_in_one_split(tmp_path: Path) -> None:
    lines = "".join(f"L{n} +++$+++ u{n} +++$+++ m{n // 20} +++$+++ X +++$+++ line {n}\n" for n in range(1000))
    told = [f"u{n} +++$+++ u{n + 1} +++$+++ m{n // 20} +++$+++ ['L{n}', 'L{n + 1}']" for n in range(0, 1000, 2)]
    conversations(tmp_path, lines.encode(), *told)
    movies = {split: {each.meta["author"] for each in Cornell(tmp_path).dialogues(split)} for split in SPLITS}
    assert sum(map(len, movies.values())) == 50
    assert all(movies.values())
