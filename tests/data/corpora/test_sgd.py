"""Schema-Guided Dialogue: several files per split."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dialog.data.corpora.task_oriented import SGD
from dialog.data.dialogue import SPLITS, WARNING, Dialogue, Malformed, Turn
from dialog.errors import UserError


def talk(id: str) -> dict[str, object]:
    texts = [("USER", f"A bus, {id}?"), ("SYSTEM", "Where to?")]
    turns = [
        {"speaker": speaker, "utterance": text, "frames": [{"service": "Buses_1"}]}
        for speaker, text in texts
    ]
    return {"dialogue_id": id, "services": ["Buses_1"], "turns": turns}


FILES = {
    f"{split}/dialogues_0{n:02}.json": json.dumps(
        [talk(f"{n}_0000{number}") for number in range(3)], indent=2
    )
    for split in ("train", "dev", "test")
    for n in (10, 2, 1)
} | {f"{split}/schema.json": "[]" for split in ("train", "dev", "test")}


def test_reads_the_files_of_a_split_in_order(
    check_laws: Callable[..., dict[str, list[Dialogue]]],
) -> None:
    read = {name: content for name, content in FILES.items() if "schema" not in name}
    for dialogues in check_laws(SGD, read).values():
        assert [dialogue.id for dialogue in dialogues] == [
            f"{n}_0000{number}" for n in (1, 2, 10) for number in range(3)
        ]
        assert dialogues[0].turns == (Turn("user", "A bus, 1_00000?"), Turn("system", "Where to?"))
        assert dialogues[0].meta == {"services": ["Buses_1"]}
        gap = "no file between dialogues_002 and dialogues_010; download the corpus again"
        assert [dialogue.meta.get(WARNING) for dialogue in dialogues] == [
            *[None] * 6,
            gap,
            None,
            None,
        ]


def test_schemas_are_not_dialogues(write_files: Callable[..., Path]) -> None:
    corpus = SGD(write_files(FILES))
    assert all(len([*corpus.dialogues(split)]) == 9 for split in SPLITS)
    assert not [name for name in corpus.fingerprint() if "schema" in name]


def test_malformed_records_are_reported_and_the_rest_read(write_files: Callable[..., Path]) -> None:
    broken = json.dumps([talk("1_0"), {"dialogue_id": "1_1", "services": []}, talk("1_2")])
    entries = [
        *SGD(write_files({**FILES, "dev/dialogues_001.json": broken})).dialogues("validation")
    ]
    assert [type(entry) for entry in entries[:3]] == [Dialogue, Malformed, Dialogue]
    assert "dialogues_001.json: record 2: not in this corpus's format (KeyError: 'turns')" in str(
        entries[1]
    )


def test_a_split_without_files_is_reported(write_files: Callable[..., Path]) -> None:
    folder = write_files(
        {name: content for name, content in FILES.items() if not name.startswith("test/dialogues")}
    )
    with pytest.raises(
        UserError, match=r"test holds no dialogues_\*\.json; it should hold dialogues_001\.json"
    ):
        SGD(folder).fingerprint()
