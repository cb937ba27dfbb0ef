"""The Switchboard Dialog Act Corpus: tables, marks of speech and lists of splits."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from dialog.data.corpora.switchboard import Switchboard
from dialog.data.dialogue import SPLITS, Dialogue, Malformed, Turn
from dialog.errors import UserError

COLUMNS = [
    "swda_filename",
    "conversation_no",
    "transcript_index",
    "act_tag",
    "caller",
    "text",
    "pos",
    "trees",
]


def table(number: int, *rows: tuple[str, str, str]) -> str:
    """Return a table of (caller, act, text)."""
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\r\n")
    writer.writeheader()
    for index, (caller, act, text) in enumerate(rows):
        fields = {
            "conversation_no": number,
            "transcript_index": index,
            "caller": caller,
            "act_tag": act,
            "text": text,
        }
        writer.writerow(fields)
    return file.getvalue()


def files(count: int) -> dict[str, str]:
    """Return the tables of conversations 4000, 4001, ..."""
    return {
        f"sw0{n % 2}utt/sw_{n:04}_{4000 + n}.utt.csv": table(
            4000 + n,
            ("A", "qy", f"Tea {n}? /"),
            ("B", "ny", "Yes, /"),
            ("B", "sd", "two -/"),
            ("@A", "b", "Uh-huh. /"),
        )
        for n in range(count)
    }


def test_consecutive_utterances_of_a_caller_are_one_turn(
    check_laws: Callable[..., dict[str, list[Dialogue]]],
) -> None:
    splits = check_laws(Switchboard, files(12))
    everything = {dialogue.id: dialogue for dialogues in splits.values() for dialogue in dialogues}
    assert sorted(everything) == [str(4000 + n) for n in range(12)]
    assert everything["4007"].turns == (
        Turn("A", "Tea 7?"),
        Turn("B", "Yes, two"),
        Turn("A", "Uh-huh."),
    )
    assert everything["4007"].meta == {"acts": [["qy"], ["ny", "sd"], ["b"]]}


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("{D Well, } I [ like, + {F uh, } like ] it. /", "Well, I like, uh, like it."),
        ("[ [ I, + I ] + I ] do <laughter> -/", "I, I I do"),
        ("<<a dog>> (( maybe )) and/or ( (not) ) so# -- /", "maybe and/or not so --"),
        ("Fine. / *[[slash error; see [ below ] ]]", "Fine."),
        ('He said, "{F oh, } no," twenty-one. /', 'He said, "oh, no," twenty-one.'),
        ("<Throat_clearing>. /", "."),
        ("<laughter>", ""),
    ],
)
def test_marks_are_removed_and_words_stay(
    write_files: Callable[..., Path], raw: str, clean: str
) -> None:
    folder = write_files({"swda/sw00utt/sw_0001_4325.utt.csv": table(4325, ("A", "sd", raw))})
    for cleaned, text in ((True, clean), (False, raw)):
        (dialogue,) = (
            d for split in SPLITS for d in Switchboard(folder, cleaned=cleaned).dialogues(split)
        )
        assert isinstance(dialogue, Dialogue)
        assert [turn.text for turn in dialogue.turns] == [text]


def test_lists_determine_the_splits(check_laws: Callable[..., dict[str, list[Dialogue]]]) -> None:
    lists = {"ws97-train-convs.list": "sw4003\nsw4000\n", "ws97-test-convs.list": "sw4001\n"}
    splits = check_laws(Switchboard, files(4) | lists)
    assert {
        split: [dialogue.id for dialogue in dialogues] for split, dialogues in splits.items()
    } == {
        "train": ["4000", "4003"],
        "validation": ["4002"],
        "test": ["4001"],
    }


def test_a_missing_list_is_reported(write_files: Callable[..., Path]) -> None:
    corpus = Switchboard(write_files(files(2) | {"ws97-test-convs.list": "sw4001\n"}))
    with pytest.raises(
        UserError,
        match=(
            r"ws97-train-convs\.list does not exist; it belongs with ws97-train-convs\.list,"
            r" ws97-test"
        ),
    ):
        next(corpus.dialogues("train"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("conversation_no,caller,act_tag,text\n4000,A\n", "4000.utt.csv:2: 2 columns, but 4 names"),
        (
            "conversation_no,caller,act_tag,words\n4000,A,sd,hi\n",
            "4000.utt.csv:1: no column 'text' among",
        ),
        (
            'conversation_no,caller,act_tag,text\n4000,A,sd,"hi\n',
            "4000.utt.csv:2: a quote is not closed",
        ),
    ],
)
def test_malformed_files_are_reported_and_the_rest_read(
    write_files: Callable[..., Path], content: str, message: str
) -> None:
    folder = write_files(files(20) | {"sw00utt/sw_0000_4000.utt.csv": content})
    entries = [entry for split in SPLITS for entry in Switchboard(folder).dialogues(split)]
    (bad,) = [entry for entry in entries if isinstance(entry, Malformed)]
    assert "sw00utt/sw_0000_4000.utt.csv" in bad.message
    assert message in bad.message
    assert len(entries) == 20
