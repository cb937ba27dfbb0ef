"""Taskmaster 1 to 4 (Byrne et al. 2019, https://arxiv.org/abs/1909.05358): tasks solved with an assistant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from dialog.config.components import lookup
from dialog.data.corpora.parsing.records import digests, json_records, listed, numbered_lines, require_path
from dialog.data.dialogue import Dialogue, Entry, Turn
from dialog.data.reading.files import all_or_none, find_files, stem
from dialog.data.reading.json_text import Json

LISTS = {"train": "train.csv", "validation": "dev.csv", "test": "test.csv"}
ABOUT = ("ontology", "sample")
"""Files of TM-1 that hold no dialogues, or one that another file holds too."""
LABELS = ("vertical", "scenario", "instruction_id")


class Taskmaster:
    """Reads the JSON arrays of a release's folder (TM-1-2019, TM-2-2020, ...), or of its folder `data` if it has one.

    Speakers are "user" and "assistant" in small letters, whatever a release has; in dialogues between two people one of
    them may speak several times in a row. Ids are the corpus's own.

    The dialogues that the lists of TM-1 (`train-dev-test/train.csv`, ...) name, its self-dialogs, are in the split of
    their list; all others are split by the rule of `parsing.records.share`. The self-dialogs, TM-3 and TM-4
    were written by one person each for both speakers, but by whom is not said.

    Args:
        path: The folder of a release.
        files: Names, without .json, of those files that are read: [self-dialogs], or [movies, music]; all by default.
    """

    def __init__(self, path: Path | None, *, files: Sequence[str] | None = None) -> None:
        self.path = require_path(
            path, "taskmaster", "the folder of a release (self-dialogs.json, data/data_00.json, ...)"
        )
        self.files = files

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of the files' names and of each file."""
        lists = {line.strip(" ,"): each for each, file in self._lists().items() for _, line in numbered_lines(file)}
        for file in self._files():
            yield from listed(json_records(file, _dialogue), split, lists)

    def fingerprint(self) -> dict[str, str]:
        """Map the files, those of the lists too, to their SHA-256."""
        return digests(self.path, [*self._files(), *self._lists().values()])

    def _files(self) -> list[Path]:
        data = self.path / "data"
        folder = data if data.is_dir() else self.path
        found = find_files(folder, "*.json", "a release's folder should; set data.path=DIR")
        dialogues = {stem(file): file for file in found if stem(file) not in ABOUT}
        return [lookup(dialogues, name, "file") for name in (dialogues if self.files is None else self.files)]

    def _lists(self) -> dict[str, Path]:
        """The lists of the three splits, if they are there; a line is an id with a comma after it."""
        inside = self.path / "train-dev-test"
        return dict(zip(LISTS, all_or_none(inside if inside.is_dir() else self.path, [*LISTS.values()]), strict=False))


def _dialogue(_: str, fields: Json, place: str) -> Dialogue:
    turns = tuple(Turn(each["speaker"].lower(), each["text"]) for each in fields["utterances"])
    meta = {label: fields[label] for label in LABELS if label in fields}
    return Dialogue(fields["conversation_id"], turns, meta, place=place)
