"""Cornell Movie-Dialogs (Danescu-Niculescu-Mizil and Lee 2011, https://aclanthology.org/W11-0609), as published."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from dialog.data.corpora.parsing.records import decoded, digests, numbered, records, require_path, share
from dialog.data.dialogue import Dialogue, Entry, Turn
from dialog.data.reading.files import find_file
from dialog.errors import UserError

LINES = "movie_lines.txt"
CONVERSATIONS = "movie_conversations.txt"
MARK = "+++$+++"
ENCODINGS = ("utf-8", "cp1252", "iso-8859-1")
"""UTF-8 as some copies are, else ISO-8859-1 as published, where bytes that are no letters of it mean Windows-1252."""

Lines = Mapping[str, tuple[str, bytes | None]]
"""Of each line by its id: file:line, and all that stands there; None where another line has the same id."""


class Cornell:
    """Reads `movie_lines.txt` and `movie_conversations.txt`, whose fields stand between ` +++$+++ `.

    A conversation of two characters is a dialogue, its id that of its first line (`L194`), its speakers the ids of the
    characters (`u0`), `meta["names"]` their names, one a turn. A line without words is a turn without text. There is
    no official split: `parsing.records.share` splits, and `meta["author"]`, the movie (`m0`), keeps all of
    a movie in one. Lines that are UTF-8 are read so, others as ISO-8859-1 with the signs of Windows-1252.

    Args:
        path: The unpacked archive.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = require_path(path, "cornell", f"the unpacked archive ({LINES} and {CONVERSATIONS})")

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the conversations of a split in the order of their file; all lines are kept meanwhile."""
        said, told = self._files()
        lines = _lines(said)
        return share(records(numbered(told), lambda raw, place: _dialogue(raw, place, lines)), split)

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256."""
        return digests(self.path, self._files())

    def _files(self) -> list[Path]:
        hint = "the unpacked archive should hold it; set data.path=DIR"
        return [find_file(self.path, name, hint) for name in (LINES, CONVERSATIONS)]


def _lines(path: Path) -> Lines:
    lines: dict[str, tuple[str, bytes | None]] = {}
    for place, raw in numbered(path):
        id = raw.partition(b" ")[0].decode("ascii", "replace")
        _, before = lines.get(id, (place, raw))
        lines[id] = place, raw if before is not None and before.rstrip() == raw.rstrip() else None
    return lines


def _dialogue(raw: bytes, place: str, lines: Lines) -> Dialogue:
    _, _, movie, listed = _fields(raw, place, 4)
    if not re.fullmatch(r"\['L\d+'(, 'L\d+')*\]", listed):
        raise UserError(f"{place}: {listed!r} is no list of lines; write ['L194', 'L195', ...]")
    ids = re.findall(r"L\d+", listed)
    missing = [id for id in ids if id not in lines]
    if missing:
        raise UserError(f"{place}: {LINES} has no line {missing[0]}; get it again")
    said = [_fields(line, where, 5) for where, line in map(lines.__getitem__, ids)]
    turns = tuple(Turn(character, text) for _, character, _, _, text in said)
    return Dialogue(ids[0], turns, {"author": movie, "names": [name for _, _, _, name, _ in said]}, place=place)


def _fields(raw: bytes | None, place: str, count: int) -> list[str]:
    if raw is None:
        raise UserError(f"{place}: an earlier line has the same id and says something else; remove one")
    fields = [field.strip(" ") for field in _text(raw, place).split(MARK)]
    if len(fields) != count:
        raise UserError(f"{place}: {len(fields)} fields between {MARK}, not {count}; get the file again")
    return fields


def _text(raw: bytes, place: str) -> str:
    for encoding in ENCODINGS[:-1]:
        try:
            return decoded(raw, place, encoding)
        except UserError:
            continue
    return decoded(raw, place, ENCODINGS[-1])
