"""PersonaChat: numbered lines, personas as facts, and ConvAI2 without a test part."""

from __future__ import annotations

from pathlib import Path

import pytest

from dialog.data.corpora.parlai import PersonaChat
from dialog.data.dialogue import Malformed, Turn
from dialog.errors import UserError

GOOD = "1 hi !\thello .\n"


def write(
    folder: Path, valid: str, parts: tuple[str, ...] = ("train", "valid", "test")
) -> PersonaChat:
    for part in parts:
        (folder / f"{part}_self_original.txt").write_text(valid if part == "valid" else GOOD)
    return PersonaChat(folder)


def test_reads_personas_and_turns(tmp_path: Path) -> None:
    text = (
        "1 your persona: i sing .\n2 your persona: i read .\n3 partner's persona: i swim .\n4"
        " __SILENCE__\thi !\t\tx|y|hi !\n5 your persona ?\twho , me ?\t\tx|z\n1 hi !\thello .\n2"
        " bye !\tbye .\n"
    )
    first, second = write(tmp_path, text).dialogues("validation")
    assert (first.id, second.id) == ("validation-1", "validation-6")
    assert first.facts == (Turn("B", "i sing ."), Turn("B", "i read ."), Turn("A", "i swim ."))
    assert first.turns == (Turn("B", "hi !"), Turn("A", "your persona ?"), Turn("B", "who , me ?"))
    assert [turn.speaker for turn in second.turns] == ["A", "B", "A", "B"]
    assert second.facts == ()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("1 hi !\thello .\n3 who ?\tme .\n", "valid_self_original.txt:3: not line 2"),
        ("1 hi !\thello .\nwho ?\tme .\n", "valid_self_original.txt:3: not line 2"),
        ("1 hi ! hello .\n", "valid_self_original.txt:2: no tab"),
        ("1 hi !\thello .\n\n", "valid_self_original.txt:3: not line 2"),
    ],
)
def test_malformed_records_are_reported_and_the_rest_read(
    tmp_path: Path, bad: str, message: str
) -> None:
    first, second, third = write(tmp_path, GOOD + bad + GOOD).dialogues("validation")
    assert first.id == "validation-1"
    assert isinstance(second, Malformed)
    assert message in second.message
    assert third.turns == first.turns


def test_the_persona_chooses_the_file(tmp_path: Path) -> None:
    (tmp_path / "test_both_revised.txt").write_text(GOOD)
    (dialogue,) = PersonaChat(tmp_path, persona="both_revised").dialogues("test")
    assert len(dialogue.turns) == 2


def test_halves_keep_both_sides_of_a_dialogue_together(tmp_path: Path) -> None:
    a_side = "".join(f"1 hi {n}\thello {n}\n2 who {n}\tme {n}\n" for n in range(100))
    b_side = "".join(f"1 __SILENCE__\thi {n}\n2 hello {n}\twho {n}\n" for n in range(100))
    corpus = write(tmp_path, f"{a_side}{b_side}1 broken\n", ("train", "valid"))
    with pytest.raises(
        UserError, match=r"test_self_original\.txt does not exist.*data\.corpus\.halves=true"
    ):
        list(corpus.dialogues("test"))
    corpus = PersonaChat(tmp_path, halves=True)
    assert len(corpus.fingerprint()) == 2
    assert [dialogue.turns[0].text for dialogue in corpus.dialogues("train")] == ["hi !"]
    *validation, broken = corpus.dialogues("validation")
    assert isinstance(broken, Malformed)
    test = list(corpus.dialogues("test"))
    assert len(validation) + len(test) == 200
    starts = [{dialogue.turns[0].text for dialogue in half} for half in (validation, test)]
    assert starts[0].isdisjoint(starts[1])
    assert min(map(len, starts)) > 20
    assert len({dialogue.id for dialogue in test}) == len(test)
