"""DailyDialog: the official archive, its labels and malformed files."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from pathlib import Path

import pytest

from dialog.data.corpora.dailydialog import DailyDialog
from dialog.data.dialogue import SPLITS, WARNING, Dialogue, Malformed, Turn
from dialog.data.examples import ExampleRules, examples
from dialog.errors import UserError

SAMPLE = Path(__file__).with_name("samples") / "dailydialog"


def write(folder: Path, train: bytes) -> DailyDialog:
    for split in SPLITS:
        (folder / split).mkdir()
        content = train if split == "train" else b"Hi . __eou__ Hello . __eou__\n"
        (folder / split / f"dialogues_{split}.txt").write_bytes(content)
    return DailyDialog(folder)


def test_reads_turns_ids_and_alternating_speakers() -> None:
    first, *rest = DailyDialog(SAMPLE).dialogues("train")
    assert first.id == "train-1"
    assert first.turns == (
        Turn("A", "Where is the station ?"),
        Turn("B", "Behind the old market , two streets from here ."),
        Turn("A", "Thank you very much !"),
    )
    assert [dialogue.id for dialogue in rest] == [f"train-{line}" for line in range(2, 9)]


def test_unicode_separators_are_text(tmp_path: Path) -> None:
    text = "a\u2028b\u0085c\x0bd\x1ce\u00a0"
    corpus = write(tmp_path, f"{text} __eou__ fine __eou__\r\nnext __eou__ one __eou__".encode())
    dialogues = list(corpus.dialogues("train"))
    assert [[turn.text for turn in dialogue.turns] for dialogue in dialogues] == [
        [text, "fine"],
        ["next", "one"],
    ]


def test_blank_lines_and_empty_turns_are_counted(tmp_path: Path) -> None:
    corpus = write(tmp_path, b"a __eou__  __eou__ b __eou__\n\nalone __eou__\n__eou__ __eou__\n")
    counts: Counter[str] = Counter()
    kept = list(examples(corpus.dialogues("train"), ExampleRules(3, first_turns=False), counts))
    assert [(example.id, example.response) for example in kept] == [("train-1#1", Turn("A", "b"))]
    assert counts == Counter(
        {
            "dialogues read": 4,
            "dialogues": 1,
            "dropped dialogues: empty": 2,
            "dropped dialogues: single turn": 1,
            "turns read": 6,
            "turns": 2,
            "dropped turns: empty": 3,
            "dropped turns: single turn": 1,
            "examples": 1,
        }
    )


def test_a_byte_that_is_not_utf8_is_malformed(tmp_path: Path) -> None:
    corpus = write(tmp_path, b"a __eou__ b __eou__\nna\xefve __eou__ b __eou__\n")
    good, bad = corpus.dialogues("train")
    assert isinstance(good, Dialogue)
    assert isinstance(bad, Malformed)
    assert re.search(r"dialogues_train\.txt:2: byte 3 .*UTF-8", bad.message)


def test_text_after_the_last_mark_is_malformed(tmp_path: Path) -> None:
    corpus = write(tmp_path, b"a __eou__ b __eou__\na __eou__ b\n")
    good, bad = corpus.dialogues("train")
    assert isinstance(good, Dialogue)
    assert isinstance(bad, Malformed)
    assert re.search(r"dialogues_train\.txt:2: .*__eou__", bad.message)


def test_a_missing_path_or_file_is_reported_with_a_fix(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data\.path=DIR.*DIALOG_DATA"):
        DailyDialog(None)
    corpus = DailyDialog(tmp_path)
    with pytest.raises(
        UserError, match=r"train/dialogues_train\.txt does not exist.*data\.path=DIR"
    ):
        corpus.fingerprint()
    with pytest.raises(UserError, match=r"test/dialogues_test\.txt"):
        next(corpus.dialogues("test"))


def test_labels_are_read_unless_their_number_differs(tmp_path: Path) -> None:
    corpus = write(tmp_path, b"a __eou__ b __eou__\nc __eou__ d __eou__ e __eou__\n")
    for kind, labels in (("act", b"1 2 \n3 4 \n"), ("emotion", b"0 6 \n0 0 0 \n")):
        (tmp_path / "train" / f"dialogues_{kind}_train.txt").write_bytes(labels)
    whole, mismatched = corpus.dialogues("train")
    assert whole == Dialogue(
        "train-1", whole.turns, {"acts": ["inform", "question"], "emotions": ["none", "surprise"]}
    )
    assert len(mismatched.turns) == 3
    assert str(mismatched.meta[WARNING]).endswith(
        "dialogues_train.txt:2: 3 turns but 2 acts; read without them"
    )
    assert len(corpus.fingerprint()) == 5


def test_compressed_labels_are_read(tmp_path: Path) -> None:
    corpus = write(tmp_path, b"a __eou__ b __eou__\n")
    (tmp_path / "train" / "dialogues_act_train.txt.gz").write_bytes(gzip.compress(b"1 2 \n"))
    (dialogue,) = corpus.dialogues("train")
    assert dialogue.meta == {"acts": ["inform", "question"]}
    (tmp_path / "train" / "dialogues_act_train.txt").write_bytes(b"1 2 \n")
    with pytest.raises(UserError, match="are both there"):
        corpus.fingerprint()


def test_cleaned_text_is_normalised(tmp_path: Path) -> None:
    text = "It ’ s “ fine ” .Come — now 。".encode() + b" __eou__ b __eou__\n"
    (first,) = (write(tmp_path, text), DailyDialog(tmp_path, cleaned=True))[1].dialogues("train")
    assert first.turns[0].text.split() == [
        "It",
        "'",
        "s",
        '"',
        "fine",
        '"',
        ".",
        "Come",
        "--",
        "now",
        ".",
    ]
