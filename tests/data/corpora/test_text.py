"""Plain text: a turn a line, blank lines between dialogues."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.data.corpora.parsing import records
from dialog.data.corpora.text import PlainText
from dialog.data.dialogue import SPLITS, Dialogue, Malformed, Turn
from dialog.errors import UserError

LINE = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"])).map(
    lambda line: f"x{line}"
)


def write(folder: Path, train: bytes, *, speakers: bool = False) -> PlainText:
    for split in SPLITS:
        (folder / f"{split}.txt").write_bytes(
            train if split == "train" else b"A: Hi !\nB: Hello .\n"
        )
    return PlainText(folder, speakers=speakers)


def test_a_blank_line_ends_a_dialogue(tmp_path: Path) -> None:
    first, second = write(tmp_path, b"\n \nHi !\nHello .\n\n\t\n\nWho ?\nMe .\nAh .").dialogues(
        "train"
    )
    assert (first.id, first.place, second.id) == (
        "train-3",
        f"{tmp_path / 'train.txt'}:3",
        "train-8",
    )
    assert first.turns == (Turn("A", "Hi !"), Turn("B", "Hello ."))
    assert second.turns == (Turn("A", "Who ?"), Turn("B", "Me ."), Turn("A", "Ah ."))


def test_lines_may_begin_with_their_speaker(tmp_path: Path) -> None:
    corpus = write(
        tmp_path,
        b"Anna: Hi: there !\n Bo : Hello .\nBo: Well .\n\nno one\nAnna: x\n\n: y\n",
        speakers=True,
    )
    first, *rest = corpus.dialogues("train")
    assert first.turns == (Turn("Anna", "Hi: there !"), Turn("Bo", "Hello ."), Turn("Bo", "Well ."))
    assert all(isinstance(entry, Malformed) for entry in rest)
    assert [
        "train.txt:5: no speaker" in rest[0].message,
        "train.txt:8: no speaker" in rest[1].message,
    ] == [True, True]


@given(dialogues=st.lists(st.lists(LINE, min_size=1), min_size=1), gap=st.integers(1, 3))
def test_written_dialogues_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, dialogues: list[list[str]], gap: int
) -> None:
    text = ("\n" * (gap + 1)).join("\n".join(lines) for lines in dialogues)
    dialogues_read = write(tmp_path_factory.mktemp("text"), text.encode()).dialogues("train")
    assert [[turn.text for turn in entry.turns] for entry in dialogues_read] == dialogues


def test_a_bad_byte_drops_only_its_dialogue(tmp_path: Path) -> None:
    bad, good = write(tmp_path, b"Hi !\ncaf\xe9\n\nWho ?\nMe .\n").dialogues("train")
    assert isinstance(bad, Malformed)
    assert "train.txt:2: byte 4" in bad.message
    assert good.id == "train-4"
    (tmp_path / "train.txt").write_bytes(b"caf\xe9\nja\n")
    (dialogue,) = PlainText(tmp_path, encoding="iso-8859-1").dialogues("train")
    assert dialogue.turns[0].text == "café"


@pytest.mark.parametrize(
    ("bound", "most", "limit"),
    [("MOST_TURNS", 3, "3 lines"), ("MOST_CHARACTERS", 16, "16 characters")],
)
def test_a_file_without_blank_lines_is_malformed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, most: int, limit: str
) -> None:
    monkeypatch.setattr(records, bound, most)
    long, short = write(tmp_path, b"aaaa\nbbbb\ncccc\ndddd\ne\n\nffff\ngggg\nhhh\n").dialogues(
        "train"
    )
    assert isinstance(long, Malformed)
    assert f"train.txt:1: a dialogue of more than {limit}" in long.message
    assert len(short.turns) == 3


def test_one_file_is_divided_into_disjoint_splits(tmp_path: Path) -> None:
    blocks = [f"question {number % 150}\nanswer {number % 150}" for number in range(300)]
    (tmp_path / "all.txt").write_text("\n\n".join(blocks))
    corpus = PlainText(tmp_path / "all.txt")
    splits = {split: list(corpus.dialogues(split)) for split in SPLITS}
    assert sum(map(len, splits.values())) == 300
    assert sum(len({entry.turns for entry in entries}) for entries in splits.values()) == 150, (
        "equal texts in two splits"
    )
    assert list(corpus.fingerprint()) == ["all.txt"]
    with pytest.raises(UserError, match="nowhere does not exist"):
        PlainText(tmp_path / "nowhere").fingerprint()


def test_a_folder_of_texts_is_divided_by_hash(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    for number in range(30):
        folder = tmp_path / "more" if number % 2 else tmp_path
        (folder / f"{number}.txt").write_text(f"Hi {number}\nHello\n\nWho {number} ?\nMe\n")
    corpus = PlainText(tmp_path)
    splits = {split: list(corpus.dialogues(split)) for split in SPLITS}
    ids = [
        entry.id for entries in splits.values() for entry in entries if isinstance(entry, Dialogue)
    ]
    assert len(set(ids)) == 60
    assert {"0-1", "0-4", "more/1-1"} <= set(ids)
    assert all(splits.values())
    assert len(corpus.fingerprint()) == 30
