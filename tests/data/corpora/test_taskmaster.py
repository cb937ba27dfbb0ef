"""Taskmaster: four releases' folders, with the lists of the first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dialog.data.corpora.taskmaster import Taskmaster
from dialog.data.dialogue import SPLITS, Dialogue, Malformed, Turn
from dialog.errors import UserError


def talk(number: int, kind: str = "dlg", speakers: tuple[str, ...] = ("USER", "ASSISTANT")) -> dict[str, object]:
    utterances = [
        {"index": index, "speaker": speaker, "text": f"{kind} line {index} of {number}", "segments": []}
        for index, speaker in enumerate(speakers)
    ]
    return {"conversation_id": f"{kind}-{number}", "instruction_id": "tea-1", "utterances": utterances}


FIRST = {
    "self-dialogs.json": json.dumps([talk(n) for n in range(9)], indent=2),
    "woz-dialogs.json": json.dumps([talk(n, "woz", ("ASSISTANT", "USER", "USER")) for n in range(40)]),
    "train-dev-test/train.csv": "".join(f"dlg-{n},\n" for n in (8, 0, 2, 4, 6)),
    "train-dev-test/dev.csv": "dlg-1,\ndlg-3,\n",
    "train-dev-test/test.csv": "dlg-5,\ndlg-7,\n",
}
ABOUT = {"sample.json": json.dumps(talk(0)), "ontology.json": '{"tea": {"id": "tea"}}'}


def test_dialogues_are_in_the_split_of_their_list_and_the_others_by_the_rule(
    laws: Callable[..., dict[str, list[Dialogue]]], lay: Callable[..., Path]
) -> None:
    found = laws(Taskmaster, FIRST)
    ids = {split: [dialogue.id for dialogue in dialogues] for split, dialogues in found.items()}
    listed = {split: [id for id in each if id.startswith("dlg")] for split, each in ids.items()}
    assert listed == {
        "train": ["dlg-0", "dlg-2", "dlg-4", "dlg-6", "dlg-8"],
        "validation": ["dlg-1", "dlg-3"],
        "test": ["dlg-5", "dlg-7"],
    }
    woz = [id for each in ids.values() for id in each if id.startswith("woz")]
    assert sorted(woz) == sorted(f"woz-{n}" for n in range(40))
    alone = Taskmaster(lay({"woz-dialogs.json": FIRST["woz-dialogs.json"]}))
    for split in SPLITS:
        assert [d for d in found[split] if d.id.startswith("woz")] == [*alone.dialogues(split)]


def test_reads_turns_in_order_with_speakers_in_small_letters(lay: Callable[..., Path]) -> None:
    first, *_ = Taskmaster(lay(FIRST)).dialogues("train")
    assert isinstance(first, Dialogue)
    assert first.turns == (Turn("user", "dlg line 0 of 0"), Turn("assistant", "dlg line 1 of 0"))
    assert first.meta == {"instruction_id": "tea-1"}
    woz = next(d for d in Taskmaster(lay(FIRST), files=["woz-dialogs"]).dialogues("train") if isinstance(d, Dialogue))
    assert [turn.speaker for turn in woz.turns] == ["assistant", "user", "user"]


def test_files_about_the_corpus_are_no_dialogues(lay: Callable[..., Path]) -> None:
    with_them, without = Taskmaster(lay({**FIRST, **ABOUT})), Taskmaster(lay(FIRST))
    for split in SPLITS:
        assert [*with_them.dialogues(split)] == [*without.dialogues(split)]


def test_a_folder_data_is_read_in_the_order_of_names(laws: Callable[..., dict[str, list[Dialogue]]]) -> None:
    files = {f"data/data_0{n}.json": json.dumps([talk(i, f"d{n}") for i in range(60)]) for n in (2, 0, 1)}
    found = laws(Taskmaster, files)
    ids = [dialogue.id for dialogue in found["train"]]
    assert ids == sorted(ids, key=lambda id: (id[:2], int(id[3:])))
    assert sum(map(len, found.values())) == 180


def test_some_files_can_be_chosen(lay: Callable[..., Path]) -> None:
    folder = lay(FIRST)
    assert {d.id for d in Taskmaster(folder, files=["self-dialogs"]).dialogues("test")} == {"dlg-5", "dlg-7"}
    with pytest.raises(UserError, match="did you mean 'woz-dialogs'"):
        Taskmaster(folder, files=["woz-dialog"]).fingerprint()


def test_a_record_that_is_none_is_named_and_the_rest_read(lay: Callable[..., Path]) -> None:
    broken = talk(1)
    broken["utterances"] = [{"index": 0, "text": "who?"}]
    files = {**FIRST, "self-dialogs.json": json.dumps([talk(0), broken, "no", talk(2)])}
    found = [*Taskmaster(lay(files), files=["self-dialogs"]).dialogues("train")]
    assert [type(entry) for entry in found] == [Dialogue, Malformed, Malformed, Dialogue]
    assert "self-dialogs.json: record 2: not in this corpus's format (KeyError: 'speaker')" in str(found[1])


def test_a_list_that_is_missing_beside_others_is_refused(lay: Callable[..., Path]) -> None:
    folder = lay({name: content for name, content in FIRST.items() if "dev.csv" not in name})
    with pytest.raises(UserError, match=r"dev\.csv does not exist; it belongs with"):
        next(Taskmaster(folder).dialogues("train"))
