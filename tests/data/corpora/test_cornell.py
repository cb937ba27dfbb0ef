"""Cornell Movie-Dialogs: two files with fields separated by +++$+++, in several encodings."""

from __future__ import annotations

from pathlib import Path

import pytest

from dialog.data.corpora.films import Cornell
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


def conversations(folder: Path, lines: bytes, *conversation: str) -> list[Entry]:
    (folder / "movie_lines.txt").write_bytes(lines)
    (folder / "movie_conversations.txt").write_text("".join(f"{line}\n" for line in conversation))
    return [entry for split in SPLITS for entry in Cornell(folder).dialogues(split)]


def test_a_conversation_consists_of_its_listed_lines(tmp_path: Path) -> None:
    (dialogue,) = conversations(tmp_path, LINES.encode(), f"{MOVIE}['L1', 'L2', 'L3', 'L4']")
    assert isinstance(dialogue, Dialogue)
    assert dialogue.id == "L1"
    assert dialogue.turns == (
        Turn("u0", "Hi !"),
        Turn("u1", "Hello ."),
        Turn("u0", ""),
        Turn("u0", ""),
    )
    assert dialogue.meta == {"author": "m0", "names": ["ANNA", "BO", "ANNA", "ANNA"]}
    assert dialogue.place == f"{tmp_path / 'movie_conversations.txt'}:1"


@pytest.mark.parametrize(
    ("conversation", "file", "message"),
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
def test_malformed_records_are_reported_and_the_rest_read(
    tmp_path: Path, conversation: str, file: str, message: str
) -> None:
    bad, good = sorted(
        conversations(tmp_path, LINES.encode(), conversation, f"{MOVIE}['L1', 'L2']"),
        key=lambda entry: isinstance(entry, Dialogue),
    )
    assert isinstance(bad, Malformed)
    assert file in bad.message
    assert message in bad.message
    assert isinstance(good, Dialogue)


def test_different_lines_with_one_id_are_malformed(tmp_path: Path) -> None:
    same = LINES.splitlines(keepends=True)[0]
    other = same.replace("Hello", "Goodbye")
    conversation = f"{MOVIE}['L1', 'L2']"
    for copies in (1, 2):
        (dialogue,) = conversations(tmp_path, (LINES + same * copies).encode(), conversation)
        assert isinstance(dialogue, Dialogue)
        (bad,) = conversations(tmp_path, (LINES + other * copies).encode(), conversation)
        assert isinstance(bad, Malformed)
        assert "movie_lines.txt:" in bad.message
        assert "the same id" in bad.message


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_copies_in_both_encodings_are_read_alike(tmp_path: Path, encoding: str) -> None:
    lines = LINES.replace("Hi !", "Un café – s’il vous plaît").encode(encoding)
    (dialogue,) = conversations(tmp_path, lines, f"{MOVIE}['L1', 'L2']")
    assert isinstance(dialogue, Dialogue)
    assert dialogue.turns[0].text == "Un café – s’il vous plaît"


def test_bytes_undefined_in_windows_1252_are_iso_8859_1(tmp_path: Path) -> None:
    (dialogue,) = conversations(
        tmp_path, LINES.encode().replace(b"Hi", b"H\x81\xe9"), f"{MOVIE}['L1', 'L2']"
    )
    assert isinstance(dialogue, Dialogue)
    assert dialogue.turns[0].text == "H\x81é !"


def test_a_movie_is_in_one_split(tmp_path: Path) -> None:
    lines = "".join(
        f"L{n} +++$+++ u{n} +++$+++ m{n // 20} +++$+++ X +++$+++ line {n}\n" for n in range(1000)
    )
    conversation = [
        f"u{n} +++$+++ u{n + 1} +++$+++ m{n // 20} +++$+++ ['L{n}', 'L{n + 1}']"
        for n in range(0, 1000, 2)
    ]
    conversations(tmp_path, lines.encode(), *conversation)
    movies = {
        split: {entry.meta["author"] for entry in Cornell(tmp_path).dialogues(split)}
        for split in SPLITS
    }
    assert sum(map(len, movies.values())) == 50
    assert all(movies.values())
