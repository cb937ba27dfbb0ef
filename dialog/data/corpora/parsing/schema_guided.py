"""The format of Schema-Guided Dialogue, which MultiWOZ has had since its version 2.2."""

from __future__ import annotations

from pathlib import Path

from dialog.data.dialogue import Dialogue, Turn
from dialog.data.reading.files import find_files
from dialog.data.reading.json_text import Json

FOLDERS = {"train": "train", "validation": "dev", "test": "test"}


def schema_files(path: Path, split: str) -> list[Path]:
    """The files `dialogues_*.json` of a split, in the order of their names."""
    return find_files(path / FOLDERS[split], "dialogues_*.json", "it should hold dialogues_001.json, ...")


def schema_dialogue(_: str, fields: Json, place: str) -> Dialogue:
    """A dialogue of such a file; speakers are "user" and "system", `meta["services"]` what the dialogue uses."""
    turns = tuple(Turn(turn["speaker"].lower(), turn["utterance"]) for turn in fields["turns"])
    return Dialogue(fields["dialogue_id"], turns, {"services": fields["services"]}, place=place)
