"""The Ubuntu Dialogue Corpus (Lowe et al. 2015, https://aclanthology.org/W15-4640), versions 1 and 2."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from dialog.data.corpora.parsing.records import decoded, digests, numbered, numbered_lines, records, require_path, share
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Turn
from dialog.data.reading.files import find_file
from dialog.errors import UserError

LISTS = {"train": "meta/trainfiles.csv", "validation": "meta/valfiles.csv", "test": "meta/testfiles.csv"}
HINT = "the unpacked archive should hold it"


class Ubuntu:
    r"""Reads `<path>/dialogs/<folder>/<number>.tsv`, a file a dialogue, a line a turn.

    A line is `<time>\t<speaker>\t<addressee>\t<text>`, where quotes are text and so are further tabs. Turns stay as
    they are where one speaker says several in a row. The id of a dialogue is `<folder>/<number>`.

    The lists of version 2, `<path>/meta/trainfiles.csv`, `valfiles.csv` and `testfiles.csv`, say which dialogues a
    split has, `<number>.tsv,<folder>` a line, and their order; a file that they name and that is not there is
    malformed. Without any of them `parsing.records.share` splits all dialogues, in the order of their
    names.

    Args:
        path: The unpacked archive.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = require_path(path, "ubuntu", "the unpacked archive (dialogs/3/1.tsv, ...)")

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split, one file open at a time."""
        lists = self._lists()
        if lists:
            return records(_listed(lists[split]), self._dialogue)
        return share(records(((name, name) for name in self._names()), self._dialogue), split)

    def fingerprint(self) -> dict[str, str]:
        """Map the lists to their SHA-256, and all the dialogues to one of their names and contents in order."""
        whole = hashlib.sha256()
        for name in self._names():
            file = find_file(self.path / "dialogs", name, HINT)
            whole.update(f"{name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
        return {"dialogs": whole.hexdigest(), **digests(self.path, self._lists().values())}

    def _lists(self) -> dict[str, Path]:
        if not (self.path / "meta").exists():
            return {}
        return {split: find_file(self.path, LISTS[split], HINT) for split in SPLITS}

    def _names(self) -> Iterator[str]:
        """`<folder>/<number>.tsv` of all dialogues, in the order of these names; one folder's are known at a time."""
        found = False
        for folder in _inside(self.path / "dialogs"):
            files = _inside(self.path / "dialogs" / folder)
            for number in sorted({file.partition(".tsv")[0] for file in files if ".tsv" in file}):
                yield f"{folder}/{number}.tsv"
                found = True
        if not found:
            raise UserError(f"{self.path / 'dialogs'} holds no dialogue; {HINT}: dialogs/3/1.tsv, ...")

    def _dialogue(self, name: str, place: str) -> Dialogue:
        file = find_file(self.path / "dialogs", name, f"{place} names it")
        turns = tuple(_turn(decoded(raw, where), where) for where, raw in numbered(file))
        return Dialogue(name.removesuffix(".tsv"), turns, place=str(file))


def _listed(path: Path) -> Iterator[tuple[str, str]]:
    for place, line in numbered_lines(path):
        name, _, folder = line.partition(",")
        yield place, f"{folder}/{name}"


def _inside(folder: Path) -> list[str]:
    """The names of what a folder holds, in order; hidden ones are none of the corpus."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if not entry.name.startswith("."))
    except OSError as error:
        raise UserError(f"{folder} cannot be read ({error.strerror}); set data.path to the unpacked archive") from error


def _turn(line: str, place: str) -> Turn:
    fields = line.split("\t", 3)
    if len(fields) < 4 or not fields[1]:
        raise UserError(f"{place}: not a time, speaker, addressee and text with tabs between them")
    return Turn(fields[1], fields[3])
