"""Subtitles: a stream of lines in blocks, and stretches that fall to one split."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.data.corpora.opensubtitles import OpenSubtitles
from dialog.data.dialogue import SPLITS, Dialogue, Malformed
from dialog.errors import UserError


@given(lines=st.integers(1, 400), turns=st.integers(2, 9), stretch=st.integers(9, 50))
def test_each_line_is_in_one_dialogue_and_each_stretch_in_one_split(
    tmp_path_factory: pytest.TempPathFactory, lines: int, turns: int, stretch: int
) -> None:
    file = tmp_path_factory.mktemp("subtitles") / "any.txt"
    file.write_text("".join(f"{number}\n" for number in range(1, lines + 1)))
    corpus = OpenSubtitles(file, turns=turns, stretch=stretch)
    splits = {split: list(corpus.dialogues(split)) for split in SPLITS}
    dialogues = sorted((each for found in splits.values() for each in found), key=lambda each: int(each.id))
    assert [int(turn.text) for each in dialogues for turn in each.turns] == list(range(1, lines + 1))
    assert all(len(each.turns) == turns for each in dialogues[:-1])
    for each in dialogues:
        assert each.id == each.turns[0].text
        assert each.place == f"{file}:{each.id}"
        assert "".join(turn.speaker for turn in each.turns) == ("AB" * turns)[: len(each.turns)]
    stretches = [{int(each.id) // stretch for each in found} for found in splits.values()]
    assert sum(map(len, stretches)) == len(set().union(*stretches))


def test_a_bad_byte_spoils_its_dialogue_only(tmp_path: Path) -> None:
    (tmp_path / "de.txt").write_bytes(b"a\nb\nc\n\xff\ne\nf\n")
    corpus = OpenSubtitles(tmp_path, language="de", turns=2)
    found = [entry for split in SPLITS for entry in corpus.dialogues(split)]
    assert {entry.id for entry in found if isinstance(entry, Dialogue)} == {"1", "5"}
    (bad,) = [entry.message for entry in found if isinstance(entry, Malformed)]
    assert "de.txt:4: byte 1" in bad


def test_numbers_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    for turns, stretch in ((1, 10), (5, 4)):
        with pytest.raises(UserError, match=f"turns is {turns} and stretch {stretch}"):
            OpenSubtitles(tmp_path, turns=turns, stretch=stretch)
