"""Switchboard's segments of two sides, woven by the time at which they begin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dialog.data.corpora.switchboard_ms98 import SwitchboardMS98
from dialog.data.dialogue import SPLITS, Dialogue, Malformed, Turn
from dialog.errors import UserError


def side(number: int, letter: str, *segments: tuple[float, str]) -> dict[str, str]:
    lines = (
        f"sw{number}{letter}-ms98-a-{index:04} {begin:.6f} {begin + 1:.6f} {text}\n"
        for index, (begin, text) in enumerate(segments, start=1)
    )
    return {f"{number // 100}/{number}/sw{number}{letter}-ms98-a-trans.text": "".join(lines)}


def talk(number: int) -> dict[str, str]:
    first = side(number, "A", (0, "[silence]"), (1, "hi there"), (2.5, "[noise] tea"), (10, f"number {number}"))
    return first | side(number, "B", (0.5, "[silence]"), (2, "[laughter]"), (3.25, "yes"), (11, "bye-bye"))


FILES = {name: content for number in range(2001, 2031) for name, content in talk(number).items()}


def read(folder: Path) -> list[Dialogue | Malformed]:
    return [entry for split in SPLITS for entry in SwitchboardMS98(folder).dialogues(split)]


def test_sides_are_woven_by_time(laws: Callable[..., dict[str, list[Dialogue]]]) -> None:
    found = {dialogue.id: dialogue for dialogues in laws(SwitchboardMS98, FILES).values() for dialogue in dialogues}
    assert sorted(found) == [str(number) for number in range(2001, 2031)]
    assert found["2005"].turns == (
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
def test_marks_become_words(lay: Callable[..., Path], raw: str, clean: str) -> None:
    (found,) = read(lay(side(2001, "A", (0, raw)) | side(2001, "B", (0, "[silence]"))))
    assert isinstance(found, Dialogue)
    assert found.turns == (Turn("A", clean),)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("sw2001B-ms98-a-0001 soon 1.0 hi\n", "B-ms98-a-trans.text:1: 'soon' is not a time in seconds"),
        ("sw2001B-ms98-a-0001\n", "ValueError"),
        ("", "is empty"),
    ],
)
def test_a_conversation_that_is_none_is_named_and_the_rest_read(
    lay: Callable[..., Path], content: str, message: str
) -> None:
    found = read(lay(FILES | {"20/2001/sw2001B-ms98-a-trans.text": content}))
    (bad,) = [entry for entry in found if isinstance(entry, Malformed)]
    assert "sw2001" in bad.message
    assert message in bad.message
    assert len(found) == 30


def test_a_side_that_is_missing_is_named(lay: Callable[..., Path]) -> None:
    with pytest.raises(UserError, match=r"sw2001B-ms98-a-trans\.text does not exist; it is the other side of sw2001A"):
        read(lay(side(2001, "A", (0, "hi"))))
