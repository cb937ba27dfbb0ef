"""Schema-Guided Dialogue: many files a split."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dialog.data.corpora.sgd import SGD
from dialog.data.dialogue import SPLITS, Dialogue, Malformed, Turn
from dialog.errors import UserError


def talk(id: str) -> dict[str, object]:
    said = [("USER", f"A bus, {id}?"), ("SYSTEM", "Where to?")]
    turns = [{"speaker": speaker, "utterance": text, "frames": [{"service": "Buses_1"}]} for speaker, text in said]
    return {"dialogue_id": id, "services": ["Buses_1"], "turns": turns}


FILES = {
    f"{split}/dialogues_0{n:02}.json": json.dumps([talk(f"{n}_0000{each}") for each in range(3)], indent=2)
    for split in ("train", "dev", "test")
    for n in (10, 2, 1)
} | {f"{split}/schema.json": "[]" for split in ("train", "dev", "test")}


def test_reads_the_files_of_a_split_in_order(laws: Callable[..., dict[str, list[Dialogue]]]) -> None:
    read = {name: content for name, content in FILES.items() if "schema" not in name}
    for dialogues in laws(SGD, read).values():
        assert [dialogue.id for dialogue in dialogues] == [f"{n}_0000{each}" for n in (1, 2, 10) for each in range(3)]
        assert dialogues[0].turns == (Turn("user", "A bus, 1_00000?"), Turn("system", "Where to?"))
        assert dialogues[0].meta == {"services": ["Buses_1"]}


def test_schemas_are_no_dialogues(lay: Callable[..., Path]) -> None:
    corpus = SGD(lay(FILES))
    assert all(len([*corpus.dialogues(split)]) == 9 for split in SPLITS)
    assert not [name for name in corpus.fingerprint() if "schema" in name]


def test_a_record_that_is_none_is_named_and_the_rest_read(lay: Callable[..., Path]) -> None:
    broken = json.dumps([talk("1_0"), {"dialogue_id": "1_1", "services": []}, talk("1_2")])
    found = [*SGD(lay({**FILES, "dev/dialogues_001.json": broken})).dialogues("validation")]
    assert [type(entry) for entry in found[:3]] == [Dialogue, Malformed, Dialogue]
    assert "dialogues_001.json: record 2: not in this corpus's format (KeyError: 'turns')" in str(found[1])


def test_a_split_without_files_is_named(lay: Callable[..., Path]) -> None:
    folder = lay({name: content for name, content in FILES.items() if not name.startswith("test/dialogues")})
    with pytest.raises(UserError, match=r"test holds no dialogues_\*\.json; it should hold dialogues_001\.json"):
        SGD(folder).fingerprint()
