"""CrossWOZ (Zhu et al. 2020, https://arxiv.org/abs/2002.11893): Chinese dialogues about a day in
Beijing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dialog.data.corpora.parsing.corpus_files import digests, require_path
from dialog.data.corpora.parsing.json_records import json_records
from dialog.data.corpora.parsing.splits import split_by_hash
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Turn
from dialog.data.reading.files import find_file
from dialog.data.reading.json_text import Json


class CrossWOZ:
    """Read CrossWOZ: `train.json`, `val.json` and `test.json`, each an object from dialogue ids to
    `messages`.

    Speakers are "usr" and "sys". Ids are the corpus's own. `meta["type"]` is the dialogue's type,
    `meta["acts"]` lists the dialogue acts of each turn.

    A file that is set for several splits is divided by `parsing.splits.split_by_hash`: a tenth each
    to validation and test, if they use it, and the rest to the first split that does. So
    `train: val` trains on nine tenths of `val.json` and validates on the remaining tenth; no
    dialogue is in two splits.

    Args:
        path: The folder of the unpacked files.
        train: File for training, without .json.
        validation: File for validation, without .json.
        test: File for the test, without .json.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        train: str = "train",
        validation: str = "val",
        test: str = "test",
    ) -> None:
        self.path = require_path(
            path, "crosswoz", "the unpacked files (train.json, val.json, test.json)"
        )
        self.names = dict(zip(SPLITS, (train, validation, test), strict=True))

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of its file."""
        users = [other for other in SPLITS if self.names[other] == self.names[split]]
        unused = [other for other in SPLITS if other not in users] if split == users[0] else []
        for entry in json_records(self._file(split), _dialogue):
            for part in (split, *unused):
                yield from split_by_hash([entry], part)

    def fingerprint(self) -> dict[str, str]:
        """Map the splits to their files, and the files to their SHA-256."""
        return {**self.names, **digests(self.path, (self._file(split) for split in SPLITS))}

    def _file(self, split: str) -> Path:
        name = f"{self.names[split]}.json"
        return find_file(
            self.path, name, f"unpack {name}.zip, or set data.corpus.{split} to another file"
        )


def _dialogue(key: str, fields: Json, place: str) -> Dialogue:
    messages = fields["messages"]
    turns = tuple(Turn(message["role"], message["content"]) for message in messages)
    meta = {"type": fields.get("type"), "acts": [message.get("dialog_act") for message in messages]}
    return Dialogue(key, turns, meta, place=place)
