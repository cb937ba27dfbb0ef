"""CrossWOZ (Zhu et al. 2020, https://arxiv.org/abs/2002.11893): Chinese dialogues about a day in Beijing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dialog.data.corpora.parsing.records import digests, json_records, require_path, share
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Turn
from dialog.data.reading.files import find_file
from dialog.data.reading.json_text import Json


class CrossWOZ:
    """Reads `train.json`, `val.json` and `test.json`: an object from dialogue ids to their `messages`.

    Speakers are "usr" and "sys", ids the corpus's own; its `type` and the dialogue acts, a list a turn, are
    `meta["type"]` and `meta["acts"]`.

    A file that is given to several splits is divided among them by the rule of `parsing.records.share`: a
    tenth of it each to validation and test, where they name it, what remains to the first that names it. So
    `train: val` trains on nine tenths of `val.json` and validates on the other, and no dialogue is in two splits.

    Args:
        path: The folder of the unpacked files.
        train: Name of the file, without .json, that training reads.
        validation: The same for validation.
        test: The same for the test.
    """

    def __init__(self, path: Path | None, *, train: str = "train", validation: str = "val", test: str = "test") -> None:
        self.path = require_path(path, "crosswoz", "the unpacked files (train.json, val.json, test.json)")
        self.names = dict(zip(SPLITS, (train, validation, test), strict=True))

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of its file."""
        sharers = [each for each in SPLITS if self.names[each] == self.names[split]]
        rest = [each for each in SPLITS if each not in sharers] if split == sharers[0] else []
        for entry in json_records(self._file(split), _dialogue):
            for each in (split, *rest):
                yield from share([entry], each)

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256, with the split that each is for."""
        return {**self.names, **digests(self.path, (self._file(split) for split in SPLITS))}

    def _file(self, split: str) -> Path:
        name = f"{self.names[split]}.json"
        return find_file(self.path, name, f"unpack {name}.zip, or name the file that {split} shall read")


def _dialogue(key: str, fields: Json, place: str) -> Dialogue:
    messages = fields["messages"]
    turns = tuple(Turn(message["role"], message["content"]) for message in messages)
    meta = {"type": fields.get("type"), "acts": [message.get("dialog_act") for message in messages]}
    return Dialogue(key, turns, meta, place=place)
