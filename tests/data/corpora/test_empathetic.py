"""EmpatheticDialogues: lines that look like CSV but are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dialog.data.corpora.empathetic import Empathetic
from dialog.data.dialogue import Dialogue, Malformed, Turn
from dialog.errors import UserError

HEADER = "conv_id,utterance_idx,context,prompt,speaker_idx,utterance,selfeval,tags\n"
TRAIN = (
    HEADER
    + 'hit:0_conv:1,1,proud,I baked_comma_ and won.,5,My "bread_comma_ it won ,5|5|5_2|2|5,\n'
    + "hit:0_conv:1,2,proud,I baked_comma_ and won.,6,Well done!,5|5|5_2|2|5,\n"
    + "hit:0_conv:1,3,proud,I baked_comma_ and won.,5,Thanks,5|5|5_2|2|5,\n"
    + "hit:1_conv:3,1,afraid,A noise,7,Did you hear?,5|5|5_2|2|5,\n"
)
OTHER = HEADER + "hit:9_conv:9,1,sad,Rain,1,Rain again,5|5|5_5|5|5,,Oh_comma_ no|Yes\n"
FILES = {"train.csv": TRAIN, "valid.csv": OTHER, "test.csv": OTHER.replace("hit:9", "hit:8")}


def test_reads_the_format(check_laws: Callable[..., dict[str, list[Dialogue]]]) -> None:
    splits = check_laws(Empathetic, FILES)
    won, noise = splits["train"]
    assert won.turns == (
        Turn("speaker", 'My "bread, it won'),
        Turn("listener", "Well done!"),
        Turn("speaker", "Thanks"),
    )
    assert (won.id, won.meta) == (
        "hit:0_conv:1",
        {"emotion": "proud", "prompt": "I baked, and won."},
    )
    assert noise.turns == (Turn("speaker", "Did you hear?"),)
    assert not won.facts
    assert [dialogue.id for dialogue in splits["validation"]] == ["hit:9_conv:9"]


def test_the_situation_can_be_a_fact_of_the_speaker(write_files: Callable[..., Path]) -> None:
    first = next(Empathetic(write_files(FILES), prompt=True).dialogues("train"))
    assert isinstance(first, Dialogue)
    assert first.facts == (Turn("speaker", "I baked, and won."),)
    assert (
        Empathetic(write_files(FILES), prompt=True).fingerprint()
        != Empathetic(write_files(FILES)).fingerprint()
    )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("hit:5,1,sad,No,1,one, two, three,5|5,,\n", "train.csv:6: 11 fields, not 8 or 9"),
        ("hit:5,1\n", "train.csv:6: 2 fields, not 8 or 9"),
        ("hit:5,2,sad,No,1,two,5|5,\n", "train.csv:6: utterance 2 of its conversation, not 1"),
        ("hit:5,1,sad,No,1,one,5|5,\nhit:5,3,sad,No,1,three,5|5,\n", "train.csv:7: utterance 3"),
        ("\n", "train.csv:6: 1 fields"),
    ],
)
def test_malformed_records_are_reported_and_the_rest_read(
    write_files: Callable[..., Path], lines: str, message: str
) -> None:
    train = f"{TRAIN}{lines}hit:7,1,sad,Yes,1,fine,5|5,\n"
    entries = [*Empathetic(write_files({**FILES, "train.csv": train})).dialogues("train")]
    assert [type(entry) for entry in entries] == [Dialogue, Dialogue, Malformed, Dialogue]
    assert message in str(entries[2])


def test_a_bad_byte_drops_only_its_conversation(write_files: Callable[..., Path]) -> None:
    folder = write_files(FILES)
    (folder / "train.csv").write_bytes(TRAIN.encode().replace(b"Well", b"W\xe9ll"))
    bad, good = Empathetic(folder).dialogues("train")
    assert isinstance(bad, Malformed)
    assert "train.csv:3: byte" in bad.message
    assert isinstance(good, Dialogue)


def test_a_missing_file_is_reported(write_files: Callable[..., Path]) -> None:
    folder = write_files({"train.csv": TRAIN})
    with pytest.raises(UserError, match=r"valid\.csv does not exist.*data\.path=DIR"):
        Empathetic(folder).fingerprint()
