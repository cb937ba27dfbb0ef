"""Topical-Chat (Gopalakrishnan et al. 2019, https://arxiv.org/abs/2308.11995): talk over what both have read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from dialog.data.corpora.parsing.records import digests, json_records, require_path
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Turn
from dialog.data.reading.files import find_file
from dialog.data.reading.json_text import Json

PARTS = ("freq", "rare")
LABELS = ("sentiment", "knowledge_source", "turn_rating")


class TopicalChat:
    """Reads `conversations/{train,valid_freq,valid_rare,test_freq,test_rare}.json` of the official repository.

    Speakers are "agent_1" and "agent_2", ids the corpus's own, texts as they stand (some hold line feeds).
    `meta["config"]` says how the reading was dealt out; `meta["sentiment"]`, `meta["knowledge_source"]` and
    `meta["turn_rating"]` list the labels, one a turn. The readings themselves are not read: the repository holds what
    they are to be gathered from.

    Args:
        path: The clone of the repository, or its folder `conversations`.
        parts: Of validation and test: `freq` is about what training talks about often, `rare` about what it does not.
    """

    def __init__(self, path: Path | None, *, parts: Sequence[str] = PARTS) -> None:
        self.path = require_path(path, "topical_chat", "the clone of its repository (conversations/train.json, ...)")
        self.parts = parts

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split, part after part, in the order of the files."""
        for file in self._files(split):
            yield from json_records(file, _dialogue)

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256, with the order of the parts."""
        files = (file for split in SPLITS for file in self._files(split))
        return {"parts": " ".join(self.parts), **digests(self.path, files)}

    def _files(self, split: str) -> list[Path]:
        inside = self.path / "conversations"
        folder = inside if inside.is_dir() else self.path
        short = {"validation": "valid"}.get(split, split)
        names = ["train"] if split == "train" else [f"{short}_{part}" for part in self.parts]
        hint = f"set data.path=DIR; validation and test have the parts {' and '.join(PARTS)}"
        return [find_file(folder, f"{name}.json", hint) for name in names]


def _dialogue(key: str, fields: Json, place: str) -> Dialogue:
    content = fields["content"]
    turns = tuple(Turn(each["agent"], each["message"]) for each in content)
    labels = {label: [each.get(label) for each in content] for label in LABELS}
    return Dialogue(key, turns, {"config": fields.get("config"), **labels}, place=place)
