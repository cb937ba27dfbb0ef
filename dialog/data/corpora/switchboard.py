"""The Switchboard Dialog Act Corpus (Jurafsky et al. 1997; Stolcke et al. 2000): talk over the telephone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from dialog.data.corpora.parsing.records import digests, listed, numbered_lines, records, require_path
from dialog.data.corpora.parsing.tables import cells, table
from dialog.data.dialogue import Dialogue, Entry, Turn
from dialog.data.reading.files import all_or_none, find_files

COLUMNS = ("conversation_no", "caller", "act_tag", "text")
LISTS = {"train": "ws97-train-convs.list", "test": "ws97-test-convs.list"}
ASIDES = re.compile(r"<+[^<>]*>+|\*\[\[.*?\]\]|\*")
"""<laughter>, <<a dog>>, and remarks of the annotators, *[[listen]]."""
MARKS = re.compile(r"\{[A-Z]\b ?|[}\[\]+#]|\( ?\(|\) ?\)|-?/(?=\s|$)")
"""Of {F fillers, }, [ restarts, + restarts ], overlap#, what is (( hardly heard )) and ends of utterances, / or -/."""


class Switchboard:
    """Reads `sw00utt/sw_0001_4325.utt.csv`, ..., a conversation a file, as https://github.com/cgpotts/swda has them.

    What a caller, "A" or "B", says before the other one does is one turn, its utterances joined by a space. Ids are the
    numbers of the conversations, and `meta["acts"]` lists the acts of the utterances, a list a turn.

    Where the two lists of the coders, `ws97-train-convs.list` and `ws97-test-convs.list`, lie beside the folders, they
    say what is for training and test, and what neither names is for validation: 1,115, 19 and 21 conversations. Without
    them the rule of `parsing.records.share` does. Callers speak in several conversations.

    Args:
        path: The unpacked folder `swda`, or what holds it.
        cleaned: Whether texts are without what is no speech: sounds, remarks, and the marks of fillers, restarts and
            the ends of utterances. Every word that was said stays.
    """

    def __init__(self, path: Path | None, *, cleaned: bool = True) -> None:
        self.path = require_path(path, "switchboard", "the unpacked folder swda (sw00utt/sw_0001_4325.utt.csv, ...)")
        self.cleaned = cleaned

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of the files' names; malformed ones in train."""
        found = records(((str(file), file) for file in self._files()), self._dialogue)
        lists = {
            number: each
            for each, file in self._lists().items()
            for _, line in numbered_lines(file)
            for number in re.findall(r"\d{4}", line)
        }
        return listed(found, split, lists, "validation" if lists else None)

    def fingerprint(self) -> dict[str, str]:
        """Map the files, those of the lists too, to their SHA-256, with what becomes of the marks."""
        return {"cleaned": str(self.cleaned), **digests(self.path, [*self._files(), *self._lists().values()])}

    def _folder(self) -> Path:
        inside = self.path / "swda"
        return inside if inside.is_dir() else self.path

    def _files(self) -> list[Path]:
        return find_files(self._folder(), "sw*utt/*.utt.csv", "unpack swda.zip, or set data.path=DIR")

    def _lists(self) -> dict[str, Path]:
        return dict(zip(LISTS, all_or_none(self._folder(), [*LISTS.values()]), strict=False))

    def _dialogue(self, file: Path, place: str) -> Dialogue:
        rows = [cells(row) for _, row in table(file, COLUMNS)]
        said = [(caller, list(group)) for caller, group in groupby(rows, key=lambda row: row["caller"].lstrip("@"))]
        turns = tuple(Turn(caller, self._text(" ".join(row["text"] for row in group))) for caller, group in said)
        acts = [[row["act_tag"] for row in group] for _, group in said]
        return Dialogue(rows[0]["conversation_no"], turns, {"acts": acts}, place=place)

    def _text(self, text: str) -> str:
        return " ".join((MARKS.sub("", ASIDES.sub(" ", text)) if self.cleaned else text).split())
