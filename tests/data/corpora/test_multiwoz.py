"""MultiWOZ: logs and lists of 2.0 and 2.1, folders of 2.2."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dialog.data.corpora.task_oriented import MultiWOZ
from dialog.data.dialogue import SPLITS, Dialogue, Malformed, Turn
from dialog.errors import UserError


def logged(*texts: str) -> dict[str, object]:
    return {"goal": {"taxi": {}}, "log": [{"text": text, "metadata": {}} for text in texts]}


def guided(id: str) -> dict[str, object]:
    turn = {"frames": [], "speaker": "USER", "turn_id": "0", "utterance": "Hi"}
    return {"dialogue_id": id, "services": ["taxi"], "turns": [turn]}


DATA = {f"PMUL{n}.json": logged(f"need a taxi {n} ", "where to ?", "home .") for n in range(6)}
LOGS = {
    "data.json": json.dumps(DATA, indent=4),
    "valListFile.json": "PMUL4.json\nPMUL1.json\n",
    "testListFile.json": "PMUL3.json\n",
}
FOLDERS = {
    f"{split}/dialogues_00{n}.json": json.dumps([guided(f"MUL{n}{letter}.json") for letter in "ab"])
    for split in ("train", "dev", "test")
    for n in (2, 1)
}


def ids(entries: dict[str, list[Dialogue]]) -> dict[str, list[str]]:
    return {split: [dialogue.id for dialogue in dialogues] for split, dialogues in entries.items()}


def test_unlisted_logs_are_for_training(
    check_laws: Callable[..., dict[str, list[Dialogue]]],
) -> None:
    splits = check_laws(MultiWOZ, LOGS)
    assert ids(splits) == {
        "train": ["PMUL0.json", "PMUL2.json", "PMUL5.json"],
        "validation": ["PMUL1.json", "PMUL4.json"],
        "test": ["PMUL3.json"],
    }
    assert splits["test"][0].turns == (
        Turn("user", "need a taxi 3 "),
        Turn("system", "where to ?"),
        Turn("user", "home ."),
    )


def test_lists_may_end_in_txt(write_files: Callable[..., Path]) -> None:
    renamed = {name.replace("File.json", "File.txt"): content for name, content in LOGS.items()}
    for split in SPLITS:
        assert [*MultiWOZ(write_files(renamed)).dialogues(split)] == [
            *MultiWOZ(write_files(LOGS)).dialogues(split)
        ]


def test_a_missing_list_is_reported(write_files: Callable[..., Path]) -> None:
    folder = write_files({name: content for name, content in LOGS.items() if "test" not in name})
    with pytest.raises(
        UserError, match=r"testListFile\.json does not exist; it should name the dialogues of test"
    ):
        next(MultiWOZ(folder).dialogues("train"))


def test_an_unreadable_folder_is_reported(
    write_files: Callable[..., Path], make_unreadable: Callable[[Path], None]
) -> None:
    make_unreadable(folder := write_files(LOGS))
    with pytest.raises(UserError, match=rf"^{folder} cannot be read \(Permission denied\)"):
        next(MultiWOZ(folder).dialogues("train"))


def test_malformed_records_are_reported_and_the_rest_read(write_files: Callable[..., Path]) -> None:
    broken = json.dumps(
        {
            "PMUL0.json": logged("a", "b"),
            "PMUL1.json": {"log": None},
            "PMUL2.json": logged("c", "d"),
        }
    )
    entries = [*MultiWOZ(write_files({**LOGS, "data.json": broken})).dialogues("train")]
    assert [type(entry) for entry in entries] == [Dialogue, Malformed, Dialogue]
    assert "data.json: record PMUL1.json: not in this corpus's format" in str(entries[1])


def test_reads_folders_of_schema_guided_dialogues(
    check_laws: Callable[..., dict[str, list[Dialogue]]],
) -> None:
    splits = check_laws(MultiWOZ, FOLDERS)
    in_order = ["MUL1a.json", "MUL1b.json", "MUL2a.json", "MUL2b.json"]
    assert all(split_ids == in_order for split_ids in ids(splits).values())
    assert splits["train"][0] == Dialogue(
        "MUL1a.json", (Turn("user", "Hi"),), {"services": ["taxi"]}
    )
