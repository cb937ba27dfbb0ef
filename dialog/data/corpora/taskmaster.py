"""Taskmaster 1 to 4 (Byrne et al. 2019, https://arxiv.org/abs/1909.05358): tasks solved with an
assistant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from dialog.config.components import lookup
from dialog.data.corpora.parsing.corpus_files import digests, require_path
from dialog.data.corpora.parsing.json_records import json_files_records
from dialog.data.corpora.parsing.lines import text_lines
from dialog.data.corpora.parsing.splits import split_by_lists
from dialog.data.dialogue import Dialogue, Entry, Turn
from dialog.data.reading.files import all_or_none, find_files, stem
from dialog.data.reading.json_text import Json

LISTS = {"train": "train.csv", "validation": "dev.csv", "test": "test.csv"}
NOT_DIALOGUES = ("ontology", "sample")
"""Files of TM-1 without dialogues of their own."""
LABELS = ("vertical", "scenario", "instruction_id")


class Taskmaster:
    """Read a Taskmaster release (TM-1-2019, TM-2-2020, ...): the JSON arrays of its folder, or of
    the folder's `data`.

    Speakers are "user" and "assistant", in lower case in all releases; in dialogues between two
    people, one may have several turns in a row. Ids are the corpus's own.

    Dialogues in the lists of TM-1 (`train-dev-test/train.csv`, ...), which name its self-dialogs,
    are in the split of their list; all others are divided by `parsing.splits.split_by_hash`. In the
    self-dialogs, TM-3 and TM-4, one person wrote both speakers; the files do not identify that
    person.

    Args:
        path: The folder of a release.
        files: Names of files to read, without .json: [self-dialogs], or [movies, music]; null reads
            all.
    """

    def __init__(self, path: Path | None, *, files: Sequence[str] | None = None) -> None:
        content = "the folder of a release (self-dialogs.json, data/data_00.json, ...)"
        self.path = require_path(path, "taskmaster", content)
        self.files = files

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of the file names and of each file."""
        lists = {
            line.strip(" ,"): name
            for name, file in self._lists().items()
            for _, line in text_lines(file)
        }
        return split_by_lists(json_files_records(self._files(), _dialogue), split, lists)

    def fingerprint(self) -> dict[str, str]:
        """Map the files, including the lists, to their SHA-256."""
        return digests(self.path, [*self._files(), *self._lists().values()])

    def _files(self) -> list[Path]:
        data = self.path / "data"
        folder = data if data.is_dir() else self.path
        files = find_files(folder, "*.json", "give the folder of a release as data.path=DIR")
        dialogues = {stem(file): file for file in files if stem(file) not in NOT_DIALOGUES}
        return [
            lookup(dialogues, name, "file")
            for name in (dialogues if self.files is None else self.files)
        ]

    def _lists(self) -> dict[str, Path]:
        """Map the splits to their lists, if present; a line of a list is an id and a comma."""
        lists = self.path / "train-dev-test"
        return dict(
            zip(
                LISTS,
                all_or_none(lists if lists.is_dir() else self.path, [*LISTS.values()]),
                strict=False,
            )
        )


def _dialogue(_: str, fields: Json, place: str) -> Dialogue:
    turns = tuple(Turn(entry["speaker"].lower(), entry["text"]) for entry in fields["utterances"])
    meta = {label: fields[label] for label in LABELS if label in fields}
    return Dialogue(fields["conversation_id"], turns, meta, place=place)
