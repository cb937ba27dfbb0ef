"""Cornell Movie-Dialogs (Danescu-Niculescu-Mizil and Lee 2011, https://aclanthology.org/W11-0609)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from dialog.data.corpora.parsing.corpus_files import digests, require_path
from dialog.data.corpora.parsing.lines import byte_lines, decode_line
from dialog.data.corpora.parsing.records import records
from dialog.data.corpora.parsing.splits import split_by_hash
from dialog.data.dialogue import Dialogue, Entry, Turn
from dialog.data.reading.files import find_file
from dialog.errors import UserError

LINES = "movie_lines.txt"
CONVERSATIONS = "movie_conversations.txt"
SEPARATOR = "+++$+++"
ENCODINGS = ("utf-8", "cp1252", "iso-8859-1")
"""Tried in order: some copies are UTF-8; the published one is ISO-8859-1 with characters of
Windows-1252.
"""

Lines = Mapping[str, tuple[str, bytes | None]]
"""Maps a line's id to (file:line, raw line), with None if another line has the same id."""


class Cornell:
    """Read Cornell Movie-Dialogs as published: `movie_lines.txt` and `movie_conversations.txt`.

    ` +++$+++ ` separates fields. A conversation of two characters is a dialogue with the id of its
    first line (`L194`); the speakers are the characters' ids (`u0`), and `meta["names"]` lists the
    character's name of each turn. An empty line is a turn without text. Lines are read as UTF-8,
    Windows-1252 or ISO-8859-1, whichever decodes first.

    The corpus has no official split: `parsing.splits.split_by_hash` divides the dialogues, and
    `meta["author"]`, the movie (`m0`), keeps a movie in one split.

    Args:
        path: The unpacked archive.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = require_path(
            path, "cornell", f"the unpacked archive ({LINES} and {CONVERSATIONS})"
        )

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the conversations of a split in the order of their file; all lines are kept in
        memory.
        """
        line_file, conversation_file = self._files()
        lines = _lines(line_file)
        conversations = records(
            byte_lines(conversation_file), lambda raw, place: _dialogue(raw, place, lines)
        )
        return split_by_hash(conversations, split)

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256."""
        return digests(self.path, self._files())

    def _files(self) -> list[Path]:
        hint = "the unpacked archive should hold it; set data.path=DIR"
        return [find_file(self.path, name, hint) for name in (LINES, CONVERSATIONS)]


def _lines(path: Path) -> Lines:
    lines: dict[str, tuple[str, bytes | None]] = {}
    for place, raw in byte_lines(path):
        id = raw.partition(b" ")[0].decode("ascii", "replace")
        _, before = lines.get(id, (place, raw))
        lines[id] = place, raw if before is not None and before.rstrip() == raw.rstrip() else None
    return lines


def _dialogue(raw: bytes, place: str, lines: Lines) -> Dialogue:
    _, _, movie, id_list = _fields(raw, place, 4)
    if not re.fullmatch(r"\['L\d+'(, 'L\d+')*\]", id_list):
        raise UserError(f"{place}: {id_list!r} is not a list of lines; write ['L194', 'L195', ...]")
    ids = re.findall(r"L\d+", id_list)
    missing = [id for id in ids if id not in lines]
    if missing:
        raise UserError(f"{place}: {LINES} has no line {missing[0]}; download it again")
    spoken = [_fields(line, where, 5) for where, line in map(lines.__getitem__, ids)]
    turns = tuple(Turn(character, text) for _, character, _, _, text in spoken)
    return Dialogue(
        ids[0],
        turns,
        {"author": movie, "names": [name for _, _, _, name, _ in spoken]},
        place=place,
    )


def _fields(raw: bytes | None, place: str, count: int) -> list[str]:
    if raw is None:
        raise UserError(f"{place}: an earlier line has the same id and other content; remove one")
    fields = [field.strip(" ") for field in _text(raw, place).split(SEPARATOR)]
    if len(fields) != count:
        raise UserError(
            f"{place}: {len(fields)} fields separated by {SEPARATOR}, not {count}; download the"
            " file again"
        )
    return fields


def _text(raw: bytes, place: str) -> str:
    for encoding in ENCODINGS[:-1]:
        try:
            return decode_line(raw, place, encoding)
        except UserError:
            continue
    return decode_line(raw, place, ENCODINGS[-1])
