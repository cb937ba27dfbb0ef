"""The Ubuntu Dialogue Corpus (Lowe et al. 2015, https://aclanthology.org/W15-4640), versions 1 and
2.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from dialog.data.corpora.parsing.corpus_files import FileCorpus
from dialog.data.corpora.parsing.lines import byte_lines, decode_line, text_lines
from dialog.data.corpora.parsing.records import records
from dialog.data.corpora.parsing.splits import split_by_hash
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Turn
from dialog.data.reading.files import find_file
from dialog.errors import UserError

LISTS = {
    "train": "meta/trainfiles.csv",
    "validation": "meta/valfiles.csv",
    "test": "meta/testfiles.csv",
}
HINT = "the unpacked archive should hold it"


class Ubuntu(FileCorpus):
    r"""Read the Ubuntu Dialogue Corpus: `dialogs/<folder>/<number>.tsv`, a file a dialogue, a line
    a turn.

    A line is `<time>\t<speaker>\t<addressee>\t<text>`; quotes and further tabs are text.
    Consecutive turns of one speaker stay separate. Ids are `<folder>/<number>`.

    The lists of version 2, `meta/trainfiles.csv`, `valfiles.csv` and `testfiles.csv`, give the
    dialogues of each split and their order, `<number>.tsv,<folder>` a line; a listed file that does
    not exist is malformed. Without lists, `parsing.splits.split_by_hash` divides all dialogues, in
    the order of their names.

    Args:
        path: The unpacked archive.
    """

    def __init__(self, path: Path | None) -> None:
        super().__init__(path, "ubuntu", "the unpacked archive (dialogs/3/1.tsv, ...)")

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split, one file open at a time."""
        lists = self._lists()
        if lists:
            return records(_listed(lists[split]), self._dialogue)
        entries = records(((name, name) for name in self._names()), self._dialogue)
        return split_by_hash(entries, split)

    def files(self) -> Iterable[Path]:
        """Return the lists, if present."""
        return self._lists().values()

    def fingerprint(self) -> dict[str, str]:
        """Map the lists to their SHA-256, and `dialogs` to one SHA-256 of all names and contents in
        order.
        """
        whole = hashlib.sha256()
        for name in self._names():
            file = find_file(self.path / "dialogs", name, HINT)
            whole.update(f"{name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
        return {"dialogs": whole.hexdigest(), **super().fingerprint()}

    def _lists(self) -> dict[str, Path]:
        if not (self.path / "meta").exists():
            return {}
        return {split: find_file(self.path, LISTS[split], HINT) for split in SPLITS}

    def _names(self) -> Iterator[str]:
        """Yield `<folder>/<number>.tsv` of all dialogues, sorted; only one folder's names are in
        memory.
        """
        empty = True
        for folder in _names_in(self.path / "dialogs"):
            files = _names_in(self.path / "dialogs" / folder)
            for number in sorted({file.partition(".tsv")[0] for file in files if ".tsv" in file}):
                yield f"{folder}/{number}.tsv"
                empty = False
        if empty:
            raise UserError(
                f"{self.path / 'dialogs'} holds no dialogue; {HINT}: dialogs/3/1.tsv, ..."
            )

    def _dialogue(self, name: str, place: str) -> Dialogue:
        file = find_file(self.path / "dialogs", name, f"{place} names it")
        turns = tuple(_turn(decode_line(raw, where), where) for where, raw in byte_lines(file))
        return Dialogue(name.removesuffix(".tsv"), turns, place=str(file))


def _listed(path: Path) -> Iterator[tuple[str, str]]:
    for place, line in text_lines(path):
        name, _, folder = line.partition(",")
        yield place, f"{folder}/{name}"


def _names_in(folder: Path) -> list[str]:
    """Return the sorted names in a folder, without hidden ones."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if not entry.name.startswith("."))
    except OSError as error:
        raise UserError(
            f"{folder} cannot be read ({error.strerror}); set data.path to the unpacked archive"
        ) from error


def _turn(line: str, place: str) -> Turn:
    fields = line.split("\t", 3)
    if len(fields) < 4 or not fields[1]:
        raise UserError(
            f"{place}: not a time, speaker, addressee and text separated by tabs; correct or"
            " remove it"
        )
    return Turn(fields[1], fields[3])
