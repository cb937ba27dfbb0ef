"""MultiWOZ (Budzianowski et al. 2018, https://arxiv.org/abs/1810.00278): tourist information about
Cambridge.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dialog.data.corpora.parsing.corpus_files import digests, require_path
from dialog.data.corpora.parsing.json_records import json_records
from dialog.data.corpora.parsing.lines import text_lines
from dialog.data.corpora.parsing.schema_guided import SchemaGuidedFiles
from dialog.data.corpora.parsing.splits import split_by_lists
from dialog.data.dialogue import Dialogue, Entry, Turn
from dialog.data.reading.files import find_file, find_names
from dialog.data.reading.json_text import Json

DATA = "data.json"
LISTS = {"validation": "valListFile", "test": "testListFile"}


class MultiWOZ:
    """Read MultiWOZ 2.0 to 2.4: `data.json` with its two lists, or the folders of version 2.2.

    In all versions but 2.2, `data.json` maps ids (`PMUL4372.json`) to dialogues, whose `log` holds
    the alternating turns of user and system. `valListFile` and `testListFile`, as .json or .txt,
    hold an id a line; all other dialogues are for training. Version 2.2 has the schema-guided
    format in `train`, `dev` and `test`. Speakers are "user" and "system", texts are unchanged, ids
    are the corpus's own.

    Args:
        path: The unpacked folder with `data.json`, or the folder `MultiWOZ_2.2`.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = require_path(
            path, "multiwoz", "the folder with data.json, or with train/dialogues_001.json"
        )

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of the file names and of each file; malformed
        logs in train.
        """
        if not self._has(DATA):
            yield from SchemaGuidedFiles(self.path).entries(split)
            return
        lists = {line.strip(): name for name in LISTS for _, line in text_lines(self._list(name))}
        yield from split_by_lists(json_records(self._data(), _dialogue), split, lists, "train")

    def fingerprint(self) -> dict[str, str]:
        """Map the files, including the lists, to their SHA-256."""
        if self._has(DATA):
            return digests(self.path, [self._data(), *map(self._list, LISTS)])
        return SchemaGuidedFiles(self.path).fingerprint()

    def _has(self, name: str) -> bool:
        return bool(find_names(self.path, name))

    def _data(self) -> Path:
        return find_file(self.path, DATA, "set data.path=DIR")

    def _list(self, split: str) -> Path:
        suffix = ".txt" if self._has(f"{LISTS[split]}.txt") else ".json"
        return find_file(
            self.path,
            f"{LISTS[split]}{suffix}",
            f"it should name the dialogues of {split}, one a line",
        )


def _dialogue(key: str, fields: Json, place: str) -> Dialogue:
    turns = tuple(
        Turn(("user", "system")[index % 2], entry["text"])
        for index, entry in enumerate(fields["log"])
    )
    return Dialogue(key, turns, place=place)
