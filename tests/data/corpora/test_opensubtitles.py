"""OpenSubtitles: blocks of lines, and stretches in one split."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.data.corpora.films import OpenSubtitles
from dialog.data.dialogue import SPLITS, Dialogue, Malformed
from dialog.errors import UserError


@given(lines=st.integers(1, 400), turns=st.integers(2, 9), stretch=st.integers(9, 50))
def test_lines_are_in_one_dialogue_and_stretches_in_one_split(
    tmp_path_factory: pytest.TempPathFactory, lines: int, turns: int, stretch: int
) -> None:
    file = tmp_path_factory.mktemp("subtitles") / "any.txt"
    file.write_text("".join(f"{number}\n" for number in range(1, lines + 1)))
    corpus = OpenSubtitles(file, turns=turns, stretch=stretch)
    splits = {split: list(corpus.dialogues(split)) for split in SPLITS}
    dialogues = sorted(
        (dialogue for entries in splits.values() for dialogue in entries),
        key=lambda dialogue: int(dialogue.id),
    )
    assert [int(turn.text) for dialogue in dialogues for turn in dialogue.turns] == list(
        range(1, lines + 1)
    )
    assert all(len(dialogue.turns) == turns for dialogue in dialogues[:-1])
    for dialogue in dialogues:
        assert dialogue.id == dialogue.turns[0].text
        assert dialogue.place == f"{file}:{dialogue.id}"
        assert (
            "".join(turn.speaker for turn in dialogue.turns)
            == ("AB" * turns)[: len(dialogue.turns)]
        )
    stretches = [
        {int(dialogue.id) // stretch for dialogue in entries} for entries in splits.values()
    ]
    assert sum(map(len, stretches)) == len(set().union(*stretches))


def test_a_bad_byte_drops_only_its_dialogue(tmp_path: Path) -> None:
    (tmp_path / "de.txt").write_bytes(b"a\nb\nc\n\xff\ne\nf\n")
    corpus = OpenSubtitles(tmp_path, language="de", turns=2)
    entries = [entry for split in SPLITS for entry in corpus.dialogues(split)]
    assert {entry.id for entry in entries if isinstance(entry, Dialogue)} == {"1", "5"}
    (bad,) = [entry.message for entry in entries if isinstance(entry, Malformed)]
    assert "de.txt:4: byte 1" in bad


def test_invalid_numbers_are_rejected(tmp_path: Path) -> None:
    for turns, stretch in ((1, 10), (5, 4)):
        with pytest.raises(UserError, match=f"turns is {turns} and stretch {stretch}"):
            OpenSubtitles(tmp_path, turns=turns, stretch=stretch)
