"""MultiWOZ: the logs and lists of 2.0 and 2.1, the folders of 2.2."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dialog.data.corpora.multiwoz import MultiWOZ
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
    f"{split}/dialogues_00{n}.json": json.dumps([guided(f"MUL{n}{each}.json") for each in "ab"])
    for split in ("train", "dev", "test")
    for n in (2, 1)
}


def ids(found: dict[str, list[Dialogue]]) -> dict[str, list[str]]:
    return {split: [dialogue.id for dialogue in dialogues] for split, dialogues in found.items()}


def test_reads_logs_with_what_no_list_names_as_training(laws: Callable[..., dict[str, list[Dialogue]]]) -> None:
    found = laws(MultiWOZ, LOGS)
    assert ids(found) == {
        "train": ["PMUL0.json", "PMUL2.json", "PMUL5.json"],
        "validation": ["PMUL1.json", "PMUL4.json"],
        "test": ["PMUL3.json"],
    }
    assert found["test"][0].turns == (
        Turn("user", "need a taxi 3 "),
        Turn("system", "where to ?"),
        Turn("user", "home ."),
    )


def test_lists_may_end_in_txt(lay: Callable[..., Path]) -> None:
    renamed = {name.replace("File.json", "File.txt"): content for name, content in LOGS.items()}
    for split in SPLITS:
        assert [*MultiWOZ(lay(renamed)).dialogues(split)] == [*MultiWOZ(lay(LOGS)).dialogues(split)]


def test_a_list_that_is_missing_is_named(lay: Callable[..., Path]) -> None:
    folder = lay({name: content for name, content in LOGS.items() if "test" not in name})
    with pytest.raises(UserError, match=r"testListFile\.json does not exist; it should name the dialogues of test"):
        next(MultiWOZ(folder).dialogues("train"))


def test_a_folder_that_cannot_be_read_is_named(lay: Callable[..., Path], close: Callable[[Path], None]) -> None:
    close(folder := lay(LOGS))
    with pytest.raises(UserError, match=rf"^{folder} cannot be read \(Permission denied\)"):
        next(MultiWOZ(folder).dialogues("train"))


def test_a_log_that_is_none_is_named_and_the_rest_read(lay: Callable[..., Path]) -> None:
    broken = json.dumps({"PMUL0.json": logged("a", "b"), "PMUL1.json": {"log": None}, "PMUL2.json": logged("c", "d")})
    found = [*MultiWOZ(lay({**LOGS, "data.json": broken})).dialogues("train")]
    assert [type(entry) for entry in found] == [Dialogue, Malformed, Dialogue]
    assert "data.json: record PMUL1.json: not in this corpus's format" in str(found[1])


def test_reads_folders_of_schema_guided_dialogues(laws: Callable[..., dict[str, list[Dialogue]]]) -> None:
    found = laws(MultiWOZ, FOLDERS)
    in_order = ["MUL1a.json", "MUL1b.json", "MUL2a.json", "MUL2b.json"]
    assert all(each == in_order for each in ids(found).values())
    assert found["train"][0] == Dialogue("MUL1a.json", (Turn("user", "Hi"),), {"services": ["taxi"]})
