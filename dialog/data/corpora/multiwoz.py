"""MultiWOZ (Budzianowski et al. 2018, https://arxiv.org/abs/1810.00278): tourists ask about Cambridge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dialog.data.corpora.parsing.records import digests, json_records, listed, numbered_lines, require_path
from dialog.data.corpora.parsing.schema_guided import schema_dialogue, schema_files
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Turn
from dialog.data.reading.files import find_file, find_names
from dialog.data.reading.json_text import Json

DATA = "data.json"
LISTS = {"validation": "valListFile", "test": "testListFile"}


class MultiWOZ:
    """Reads `data.json` with the two lists of versions 2.0, 2.1, 2.3 and 2.4, or the folders of version 2.2.

    Up to 2.1, and in 2.3 and 2.4, `data.json` is an object from ids (`PMUL4372.json`) to dialogues, whose `log` holds
    what user and system say by turns; `valListFile` and `testListFile`, as .json or .txt, have an id a line, and all
    that neither names is for training. Version 2.2 has the format of Schema-Guided Dialogue in `train`, `dev` and
    `test`. Speakers are "user" and "system", texts as they stand, ids the corpus's own.

    Args:
        path: The folder of the unpacked archive that holds `data.json`, or the folder `MultiWOZ_2.2`.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = require_path(path, "multiwoz", "the folder with data.json, or with train/dialogues_001.json")

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of the files' names and of each file; malformed logs in train."""
        if not self._has(DATA):
            for file in schema_files(self.path, split):
                yield from json_records(file, schema_dialogue)
            return
        lists = {line.strip(): each for each in LISTS for _, line in numbered_lines(self._list(each))}
        yield from listed(json_records(self._data(), _logged), split, lists, "train")

    def fingerprint(self) -> dict[str, str]:
        """Map the files, those of the lists too, to their SHA-256."""
        if self._has(DATA):
            return digests(self.path, [self._data(), *map(self._list, LISTS)])
        return digests(self.path, (file for split in SPLITS for file in schema_files(self.path, split)))

    def _has(self, name: str) -> bool:
        return bool(find_names(self.path, name))

    def _data(self) -> Path:
        return find_file(self.path, DATA, "set data.path=DIR")

    def _list(self, split: str) -> Path:
        ending = ".txt" if self._has(f"{LISTS[split]}.txt") else ".json"
        return find_file(self.path, f"{LISTS[split]}{ending}", f"it should name the dialogues of {split}, one a line")


def _logged(key: str, fields: Json, place: str) -> Dialogue:
    turns = tuple(Turn(("user", "system")[index % 2], each["text"]) for index, each in enumerate(fields["log"]))
    return Dialogue(key, turns, place=place)
