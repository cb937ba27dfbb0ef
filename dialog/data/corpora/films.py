"""Dialogues of films: Cornell Movie-Dialogs and OpenSubtitles."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from dialog.data.corpora.parsing.corpus_files import FileCorpus
from dialog.data.corpora.parsing.lines import byte_lines, decode_line, line_number
from dialog.data.corpora.parsing.records import Block, alternating, block_records, records
from dialog.data.corpora.parsing.splits import split_by_hash
from dialog.data.dialogue import Dialogue, Entry, Turn
from dialog.data.reading.files import find_file, require_file
from dialog.errors import UserError

LINES = "movie_lines.txt"
CONVERSATIONS = "movie_conversations.txt"
SEPARATOR = "+++$+++"
ENCODINGS = ("utf-8", "cp1252", "iso-8859-1")
"""Tried in order: some copies of Cornell's files are UTF-8; the published ones are ISO-8859-1 with
characters of Windows-1252.
"""

Lines = Mapping[str, tuple[str, bytes | None]]
"""Maps a line's id to (file:line, raw line), with None if another line has the same id."""


class Cornell(FileCorpus):
    """Read Cornell Movie-Dialogs as published: `movie_lines.txt` and `movie_conversations.txt`.

    See Danescu-Niculescu-Mizil and Lee 2011, https://aclanthology.org/W11-0609. ` +++$+++ `
    separates fields. A conversation of two characters is a dialogue with the id of its first line
    (`L194`); the speakers are the characters' ids (`u0`), and `meta["names"]` lists the character's
    name of each turn. An empty line is a turn without text. Lines are read as UTF-8, Windows-1252
    or ISO-8859-1, whichever decodes first.

    The corpus has no official split: `parsing.splits.split_by_hash` divides the dialogues, and
    `meta["author"]`, the movie (`m0`), keeps a movie in one split.

    Args:
        path: The unpacked archive.
    """

    def __init__(self, path: Path | None) -> None:
        super().__init__(path, "cornell", f"the unpacked archive ({LINES} and {CONVERSATIONS})")

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the conversations of a split in the order of their file; all lines are kept in
        memory.
        """
        line_file, conversation_file = self.files()
        lines = _lines(line_file)
        conversations = records(
            byte_lines(conversation_file), lambda raw, place: _conversation(raw, place, lines)
        )
        return split_by_hash(conversations, split)

    def files(self) -> Iterable[Path]:
        """Return the two files."""
        hint = "the unpacked archive should hold it; set data.path=DIR"
        return [find_file(self.path, name, hint) for name in (LINES, CONVERSATIONS)]


def _lines(path: Path) -> Lines:
    lines: dict[str, tuple[str, bytes | None]] = {}
    for place, raw in byte_lines(path):
        id = raw.partition(b" ")[0].decode("ascii", "replace")
        _, before = lines.get(id, (place, raw))
        lines[id] = place, raw if before is not None and before.rstrip() == raw.rstrip() else None
    return lines


def _conversation(raw: bytes, place: str, lines: Lines) -> Dialogue:
    _, _, movie, id_list = _fields(raw, place, 4)
    if not re.fullmatch(r"\['L\d+'(, 'L\d+')*\]", id_list):
        raise UserError(f"{place}: {id_list!r} is not a list of lines; write ['L194', 'L195', ...]")
    ids = re.findall(r"L\d+", id_list)
    missing = [id for id in ids if id not in lines]
    if missing:
        raise UserError(f"{place}: {LINES} has no line {missing[0]}; download it again")
    spoken = [_fields(line, where, 5) for where, line in map(lines.__getitem__, ids)]
    turns = tuple(Turn(character, text) for _, character, _, _, text in spoken)
    meta = {"author": movie, "names": [name for _, _, _, name, _ in spoken]}
    return Dialogue(ids[0], turns, meta, place=place)


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


class OpenSubtitles(FileCorpus):
    """Read OPUS's monolingual text of OpenSubtitles: `<language>.txt`, or a file of any name.

    See Lison and Tiedemann 2016, https://aclanthology.org/L16-1147. Every `turns` consecutive lines
    are a dialogue. The file marks neither speakers nor the ends of scenes and films, so "A" and "B"
    alternate and some dialogues change the subject. Ids are the number of the first line. The file
    is streamed and may be compressed (.gz, .xz, .zst).

    Dialogues that begin in one stretch of lines are in one split, chosen by
    `parsing.splits.split_by_hash`, so neighbouring lines of a film stay together.

    Args:
        path: The file, or the folder that holds it.
        language: Name of the file in the folder, without `.txt`.
        turns: Lines in a dialogue, at least 2; the last dialogue may have fewer.
        stretch: Lines in a stretch; the default is about ten films.
    """

    def __init__(
        self, path: Path | None, *, language: str = "en", turns: int = 6, stretch: int = 10_000
    ) -> None:
        content = f"a folder with {language}.txt.gz, or a file of lines"
        super().__init__(path, "opensubtitles", content)
        if turns < 2 or stretch < turns:
            raise UserError(
                f"corpus opensubtitles: turns is {turns} and stretch {stretch}; set turns to 2 or"
                " more, and stretch to turns or more"
            )
        self.language = language
        self.turns = turns
        self.stretch = stretch

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of the file."""
        (file,) = self.files()
        entries = block_records(
            byte_lines(file), lambda block, _: len(block) == self.turns, self._dialogue
        )
        return split_by_hash(entries, split)

    def files(self) -> list[Path]:
        """Return the one file."""
        hint = "it should hold subtitles, one a line; set data.path"
        if self.path.is_dir():
            return [find_file(self.path, f"{self.language}.txt", hint)]
        require_file(self.path, hint)
        return [self.path]

    def _dialogue(self, block: Block[bytes], place: str) -> Dialogue:
        first = line_number(place)
        turns = alternating(decode_line(raw, where) for where, raw in block)
        return Dialogue(first, turns, {"author": int(first) // self.stretch}, place=place)
