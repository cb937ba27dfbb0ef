"""The schema-guided format (Rastogi et al. 2020, https://arxiv.org/abs/1909.05855)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dialog.data.corpora.parsing.corpus_files import digests
from dialog.data.corpora.parsing.json_records import json_files_records
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Turn
from dialog.data.reading.files import find_files
from dialog.data.reading.json_text import Json

FOLDERS = {"train": "train", "validation": "dev", "test": "test"}


@dataclass(frozen=True)
class SchemaGuidedFiles:
    """Files `{train,dev,test}/dialogues_*.json` in `path`."""

    path: Path

    def entries(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of the file names and of each file."""
        return json_files_records(self._files(split), _dialogue)

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256."""
        return digests(self.path, (file for split in SPLITS for file in self._files(split)))

    def _files(self, split: str) -> list[Path]:
        return find_files(
            self.path / FOLDERS[split], "dialogues_*.json", "it should hold dialogues_001.json, ..."
        )


def _dialogue(_: str, fields: Json, place: str) -> Dialogue:
    turns = tuple(Turn(turn["speaker"].lower(), turn["utterance"]) for turn in fields["turns"])
    return Dialogue(fields["dialogue_id"], turns, {"services": fields["services"]}, place=place)
