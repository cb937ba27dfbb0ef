"""Topical-Chat (Gopalakrishnan et al. 2019, https://arxiv.org/abs/2308.11995): talk about texts
that both have read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from dialog.data.corpora.parsing.corpus_files import digests, require_path
from dialog.data.corpora.parsing.json_records import json_records
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Turn
from dialog.data.reading.files import find_file
from dialog.data.reading.json_text import Json

PARTS = ("freq", "rare")
LABELS = ("sentiment", "knowledge_source", "turn_rating")


class TopicalChat:
    """Read Topical-Chat's repository:
    `conversations/{train,valid_freq,valid_rare,test_freq,test_rare}.json`.

    Speakers are "agent_1" and "agent_2". Ids are the corpus's own, texts are unchanged (some hold
    line feeds). `meta["config"]` is the assignment of reading sets to the speakers;
    `meta["sentiment"]`, `meta["knowledge_source"]` and `meta["turn_rating"]` list one label a turn.
    Reading sets are not read: the repository holds only what is needed to collect them.

    Args:
        path: A clone of the repository, or its folder `conversations`.
        parts: Parts of validation and test: `freq` has subjects frequent in training, `rare` rare
            ones.
    """

    def __init__(self, path: Path | None, *, parts: Sequence[str] = PARTS) -> None:
        self.path = require_path(
            path, "topical_chat", "the clone of its repository (conversations/train.json, ...)"
        )
        self.parts = parts

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split, part after part, in the order of the files."""
        for file in self._files(split):
            yield from json_records(file, _dialogue)

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256, and `parts` to its value."""
        files = (file for split in SPLITS for file in self._files(split))
        return {"parts": " ".join(self.parts), **digests(self.path, files)}

    def _files(self, split: str) -> list[Path]:
        conversations = self.path / "conversations"
        folder = conversations if conversations.is_dir() else self.path
        prefix = {"validation": "valid"}.get(split, split)
        names = ["train"] if split == "train" else [f"{prefix}_{part}" for part in self.parts]
        hint = f"set data.path=DIR; validation and test have the parts {' and '.join(PARTS)}"
        return [find_file(folder, f"{name}.json", hint) for name in names]


def _dialogue(key: str, fields: Json, place: str) -> Dialogue:
    content = fields["content"]
    turns = tuple(Turn(entry["agent"], entry["message"]) for entry in content)
    labels = {label: [entry.get(label) for entry in content] for label in LABELS}
    return Dialogue(key, turns, {"config": fields.get("config"), **labels}, place=place)
