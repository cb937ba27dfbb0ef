"""Schema-Guided Dialogue (Rastogi et al. 2020, https://arxiv.org/abs/1909.05855): tasks over many
services.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dialog.data.corpora.parsing.corpus_files import require_path
from dialog.data.corpora.parsing.schema_guided import SchemaGuidedFiles
from dialog.data.dialogue import Entry


class SGD:
    """Read the official repository of Schema-Guided Dialogue:
    `{train,dev,test}/dialogues_001.json`, ...

    Speakers are "user" and "system". Ids are the corpus's own, unique within a split.
    `meta["services"]` lists the services of a dialogue. Frames, states and calls are not read.

    Args:
        path: A clone of the repository.
    """

    def __init__(self, path: Path | None) -> None:
        self.files = SchemaGuidedFiles(
            require_path(path, "sgd", "the clone of its repository (train/dialogues_001.json, ...)")
        )

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of the file names and of each file."""
        return self.files.entries(split)

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256."""
        return self.files.fingerprint()
