"""Switchboard in Mississippi State's transcription: segments of two sides, sorted by time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dialog.data.corpora.switchboard import SwitchboardMS98
from dialog.data.dialogue import SPLITS, Dialogue, Malformed, Turn
from dialog.errors import UserError


def side(number: int, letter: str, *segments: tuple[float, str]) -> dict[str, str]:
    lines = (
        f"sw{number}{letter}-ms98-a-{index:04} {begin:.6f} {begin + 1:.6f} {text}\n"
        for index, (begin, text) in enumerate(segments, start=1)
    )
    return {f"{number // 100}/{number}/sw{number}{letter}-ms98-a-trans.text": "".join(lines)}


def talk(number: int) -> dict[str, str]:
    first = side(
        number,
        "A",
        (0, "[silence]"),
        (1, "hi there"),
        (2.5, "[noise] tea"),
        (10, f"number {number}"),
    )
    return first | side(
        number, "B", (0.5, "[silence]"), (2, "[laughter]"), (3.25, "yes"), (11, "bye-bye")
    )


FILES = {name: content for number in range(2001, 2016) for name, content in talk(number).items()}


def read(folder: Path) -> list[Dialogue | Malformed]:
    return [entry for split in SPLITS for entry in SwitchboardMS98(folder).dialogues(split)]


def test_segments_of_both_sides_are_sorted_by_time(
    check_laws: Callable[..., dict[str, list[Dialogue]]],
) -> None:
    entries = {
        dialogue.id: dialogue
        for dialogues in check_laws(SwitchboardMS98, FILES).values()
        for dialogue in dialogues
    }
    assert sorted(entries) == [str(number) for number in range(2001, 2016)]
    assert entries["2005"].turns == (
        Turn("A", "hi there tea"),
        Turn("B", "yes"),
        Turn("A", "number 2005"),
        Turn("B", "bye-bye"),
    )


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("[laughter-so] i [laughter-don't]", "so i don't"),
        ("[splain/explain] it's them_1 them_1's", "explain it's them them's"),
        ("ab[solute]- -[an]y {yuppiedom}", "ab- -y yuppiedom"),
        ("<b_aside> come here <e_aside> [vocalized-noise] um-hum", "come here um-hum"),
    ],
)
def test_marks_are_replaced_by_words(
    write_files: Callable[..., Path], raw: str, clean: str
) -> None:
    (dialogue,) = read(write_files(side(2001, "A", (0, raw)) | side(2001, "B", (0, "[silence]"))))
    assert isinstance(dialogue, Dialogue)
    assert dialogue.turns == (Turn("A", clean),)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "sw2001B-ms98-a-0001 soon 1.0 hi\n",
            "B-ms98-a-trans.text:1: 'soon' is not a time in seconds",
        ),
        ("sw2001B-ms98-a-0001\n", "ValueError"),
        ("", "is empty"),
    ],
)
def test_malformed_files_are_reported_and_the_rest_read(
    write_files: Callable[..., Path], content: str, message: str
) -> None:
    entries = read(write_files(FILES | {"20/2001/sw2001B-ms98-a-trans.text": content}))
    (bad,) = [entry for entry in entries if isinstance(entry, Malformed)]
    assert "sw2001" in bad.message
    assert message in bad.message
    assert len(entries) == 15


def test_a_missing_side_is_reported(write_files: Callable[..., Path]) -> None:
    with pytest.raises(
        UserError,
        match=r"sw2001B-ms98-a-trans\.text does not exist; it is the other side of sw2001A",
    ):
        read(write_files(side(2001, "A", (0, "hi"))))
