"""Taskmaster: folders of releases, and the lists of TM-1."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dialog.data.corpora.task_oriented import Taskmaster
from dialog.data.dialogue import SPLITS, WARNING, Dialogue, Malformed, Turn
from dialog.errors import UserError


def talk(
    number: int, kind: str = "dlg", speakers: tuple[str, ...] = ("USER", "ASSISTANT")
) -> dict[str, object]:
    utterances = [
        {
            "index": index,
            "speaker": speaker,
            "text": f"{kind} line {index} of {number}",
            "segments": [],
        }
        for index, speaker in enumerate(speakers)
    ]
    return {
        "conversation_id": f"{kind}-{number}",
        "instruction_id": "tea-1",
        "utterances": utterances,
    }


FIRST = {
    "self-dialogs.json": json.dumps([talk(n) for n in range(9)], indent=2),
    "woz-dialogs.json": json.dumps(
        [talk(n, "woz", ("ASSISTANT", "USER", "USER")) for n in range(40)]
    ),
    "train-dev-test/train.csv": "".join(f"dlg-{n},\n" for n in (8, 0, 2, 4, 6)),
    "train-dev-test/dev.csv": "dlg-1,\ndlg-3,\n",
    "train-dev-test/test.csv": "dlg-5,\ndlg-7,\n",
}
ABOUT = {"sample.json": json.dumps(talk(0)), "ontology.json": '{"tea": {"id": "tea"}}'}


def test_lists_determine_splits_and_others_are_hashed(
    check_laws: Callable[..., dict[str, list[Dialogue]]], write_files: Callable[..., Path]
) -> None:
    splits = check_laws(Taskmaster, FIRST)
    ids = {split: [dialogue.id for dialogue in dialogues] for split, dialogues in splits.items()}
    listed = {
        split: [id for id in split_ids if id.startswith("dlg")] for split, split_ids in ids.items()
    }
    assert listed == {
        "train": ["dlg-0", "dlg-2", "dlg-4", "dlg-6", "dlg-8"],
        "validation": ["dlg-1", "dlg-3"],
        "test": ["dlg-5", "dlg-7"],
    }
    woz = [id for split_ids in ids.values() for id in split_ids if id.startswith("woz")]
    assert sorted(woz) == sorted(f"woz-{n}" for n in range(40))
    alone = Taskmaster(write_files({"woz-dialogs.json": FIRST["woz-dialogs.json"]}))
    for split in SPLITS:
        assert [d for d in splits[split] if d.id.startswith("woz")] == [*alone.dialogues(split)]


def test_speakers_are_in_lower_case(write_files: Callable[..., Path]) -> None:
    first, *_ = Taskmaster(write_files(FIRST)).dialogues("train")
    assert isinstance(first, Dialogue)
    assert first.turns == (Turn("user", "dlg line 0 of 0"), Turn("assistant", "dlg line 1 of 0"))
    assert first.meta == {"instruction_id": "tea-1"}
    woz = next(
        d
        for d in Taskmaster(write_files(FIRST), files=["woz-dialogs"]).dialogues("train")
        if isinstance(d, Dialogue)
    )
    assert [turn.speaker for turn in woz.turns] == ["assistant", "user", "user"]


def test_ontology_and_sample_are_not_dialogues(write_files: Callable[..., Path]) -> None:
    with_them, without = Taskmaster(write_files({**FIRST, **ABOUT})), Taskmaster(write_files(FIRST))
    for split in SPLITS:
        assert [*with_them.dialogues(split)] == [*without.dialogues(split)]


def test_the_folder_data_is_read_in_the_order_of_names(
    check_laws: Callable[..., dict[str, list[Dialogue]]],
) -> None:
    files = {
        f"data/data_0{n}.json": json.dumps([talk(i, f"d{n}") for i in range(60)]) for n in (2, 0, 1)
    }
    splits = check_laws(Taskmaster, files)
    ids = [dialogue.id for dialogue in splits["train"]]
    assert ids == sorted(ids, key=lambda id: (id[:2], int(id[3:])))
    assert sum(map(len, splits.values())) == 180


def test_files_can_be_chosen(write_files: Callable[..., Path]) -> None:
    folder = write_files(FIRST)
    assert {d.id for d in Taskmaster(folder, files=["self-dialogs"]).dialogues("test")} == {
        "dlg-5",
        "dlg-7",
    }
    with pytest.raises(UserError, match="did you mean 'woz-dialogs'"):
        Taskmaster(folder, files=["woz-dialog"]).fingerprint()


def test_malformed_records_are_reported_and_the_rest_read(write_files: Callable[..., Path]) -> None:
    broken = talk(1)
    broken["utterances"] = [{"index": 0, "text": "who?"}]
    files = {**FIRST, "self-dialogs.json": json.dumps([talk(0), broken, "no", talk(2)])}
    entries = [*Taskmaster(write_files(files), files=["self-dialogs"]).dialogues("train")]
    assert [type(entry) for entry in entries] == [Dialogue, Malformed, Malformed, Dialogue]
    assert "self-dialogs.json: record 2: not in this corpus's format (KeyError: 'speaker')" in str(
        entries[1]
    )


def test_listed_dialogues_that_are_missing_are_a_warning(write_files: Callable[..., Path]) -> None:
    files = {**FIRST, "self-dialogs.json": json.dumps([talk(n) for n in range(9) if n != 5])}
    *_, last = Taskmaster(write_files(files)).dialogues("test")
    warning = (
        "1 of 2 dialogues that are listed for test are missing, such as 'dlg-5'; download the"
        " corpus again"
    )
    assert last.meta[WARNING] == warning
    corpus = Taskmaster(write_files(FIRST), files=["woz-dialogs"])
    assert not [
        entry for split in SPLITS for entry in corpus.dialogues(split) if WARNING in entry.meta
    ]


def test_a_missing_list_is_reported(write_files: Callable[..., Path]) -> None:
    folder = write_files(
        {name: content for name, content in FIRST.items() if "dev.csv" not in name}
    )
    with pytest.raises(UserError, match=r"dev\.csv does not exist; it belongs with"):
        next(Taskmaster(folder).dialogues("train"))
