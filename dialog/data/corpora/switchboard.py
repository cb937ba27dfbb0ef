"""The Switchboard Dialog Act Corpus (Jurafsky et al. 1997; Stolcke et al. 2000): telephone
conversations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from dialog.data.corpora.parsing.corpus_files import digests, require_path
from dialog.data.corpora.parsing.lines import text_lines
from dialog.data.corpora.parsing.records import records
from dialog.data.corpora.parsing.splits import split_by_lists
from dialog.data.corpora.parsing.tables import cells, table
from dialog.data.dialogue import Dialogue, Entry, Turn
from dialog.data.reading.files import all_or_none, find_files

COLUMNS = ("conversation_no", "caller", "act_tag", "text")
LISTS = {"train": "ws97-train-convs.list", "test": "ws97-test-convs.list"}
ASIDES = re.compile(r"<+[^<>]*>+|\*\[\[.*?\]\]|\*")
"""<laughter>, <<a dog>>, and the annotators' remarks, *[[listen]]."""
MARKS = re.compile(r"\{[A-Z]\b ?|[}\[\]+#]|\( ?\(|\) ?\)|-?/(?=\s|$)")
"""{F fillers, }, [ restarts, + restarts ], overlap#, (( uncertain words )), and ends of utterances,
/ or -/.
"""


class Switchboard:
    """Read the Switchboard Dialog Act Corpus as in https://github.com/cgpotts/swda:
    `sw00utt/sw_0001_4325.utt.csv`, ...

    A file is a conversation. Consecutive utterances of a caller, "A" or "B", are one turn, joined
    by a space. Ids are the conversations' numbers, and `meta["acts"]` lists the dialogue acts of
    each turn's utterances.

    If the annotators' lists `ws97-train-convs.list` and `ws97-test-convs.list` lie beside the
    folders, they name train and test, and validation is the rest: 1,115, 19 and 21 conversations.
    Without the lists, `parsing.splits.split_by_hash` divides the conversations. Callers occur in
    several conversations.

    Args:
        path: The unpacked folder `swda`, or its parent.
        cleaned: Remove sounds, remarks, and the marks of fillers, restarts and ends of utterances;
            all words stay.
    """

    def __init__(self, path: Path | None, *, cleaned: bool = True) -> None:
        self.path = require_path(
            path, "switchboard", "the unpacked folder swda (sw00utt/sw_0001_4325.utt.csv, ...)"
        )
        self.cleaned = cleaned

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of the file names; malformed ones in
        train.
        """
        entries = records(((str(file), file) for file in self._files()), self._dialogue)
        lists = {
            number: name
            for name, file in self._lists().items()
            for _, line in text_lines(file)
            for number in re.findall(r"\d{4}", line)
        }
        return split_by_lists(entries, split, lists, "validation" if lists else None)

    def fingerprint(self) -> dict[str, str]:
        """Map the files, including the lists, to their SHA-256, and `cleaned` to its value."""
        return {
            "cleaned": str(self.cleaned),
            **digests(self.path, [*self._files(), *self._lists().values()]),
        }

    def _folder(self) -> Path:
        swda = self.path / "swda"
        return swda if swda.is_dir() else self.path

    def _files(self) -> list[Path]:
        return find_files(
            self._folder(), "sw*utt/*.utt.csv", "unpack swda.zip, or set data.path=DIR"
        )

    def _lists(self) -> dict[str, Path]:
        return dict(zip(LISTS, all_or_none(self._folder(), [*LISTS.values()]), strict=False))

    def _dialogue(self, file: Path, place: str) -> Dialogue:
        rows = [cells(row) for _, row in table(file, COLUMNS)]
        groups = [
            (caller, list(group))
            for caller, group in groupby(rows, key=lambda row: row["caller"].lstrip("@"))
        ]
        turns = tuple(
            Turn(caller, self._text(" ".join(row["text"] for row in group)))
            for caller, group in groups
        )
        acts = [[row["act_tag"] for row in group] for _, group in groups]
        return Dialogue(rows[0]["conversation_no"], turns, {"acts": acts}, place=place)

    def _text(self, text: str) -> str:
        return " ".join((MARKS.sub("", ASIDES.sub(" ", text)) if self.cleaned else text).split())
