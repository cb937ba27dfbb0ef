"""Schema-Guided Dialogue (Rastogi et al. 2020, https://arxiv.org/abs/1909.05855): tasks over many services."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dialog.data.corpora.parsing.records import digests, json_records, require_path
from dialog.data.corpora.parsing.schema_guided import schema_dialogue, schema_files
from dialog.data.dialogue import SPLITS, Entry


class SGD:
    """Reads `train/dialogues_001.json`, ..., likewise `dev` and `test`, of the official repository.

    Speakers are "user" and "system", ids the corpus's own, unique within a split. `meta["services"]` names the
    services that a dialogue uses; frames, states and calls are not read.

    Args:
        path: The clone of the repository.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = require_path(path, "sgd", "the clone of its repository (train/dialogues_001.json, ...)")

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of the files' names and of each file."""
        for file in schema_files(self.path, split):
            yield from json_records(file, schema_dialogue)

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256."""
        return digests(self.path, (file for split in SPLITS for file in schema_files(self.path, split)))
