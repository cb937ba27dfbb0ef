"""OpenSubtitles (Lison and Tiedemann 2016, https://aclanthology.org/L16-1147)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dialog.data.corpora.parsing.blocks import Block, block_records
from dialog.data.corpora.parsing.corpus_files import digests, require_path
from dialog.data.corpora.parsing.lines import byte_lines, decode_line, line_number
from dialog.data.corpora.parsing.splits import split_by_hash
from dialog.data.dialogue import Dialogue, Entry, Turn
from dialog.data.reading.files import find_file, require_file
from dialog.errors import UserError


class OpenSubtitles:
    """Read OPUS's monolingual text of OpenSubtitles: `<language>.txt`, or a file of any name.

    Every `turns` consecutive lines are a dialogue. The file marks neither speakers nor the ends of
    scenes and films, so "A" and "B" alternate and some dialogues change the subject. Ids are the
    number of the first line. The file is streamed and may be compressed (.gz, .xz, .zst).

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
        self.path = require_path(
            path, "opensubtitles", f"a folder with {language}.txt.gz, or a file of lines"
        )
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
        entries = block_records(
            byte_lines(self._file()), lambda block, _: len(block) == self.turns, self._dialogue
        )
        return split_by_hash(entries, split)

    def fingerprint(self) -> dict[str, str]:
        """Map the file to its SHA-256."""
        file = self._file()
        return digests(file.parent, [file])

    def _file(self) -> Path:
        hint = "it should hold subtitles, one a line; set data.path"
        if self.path.is_dir():
            return find_file(self.path, f"{self.language}.txt", hint)
        require_file(self.path, hint)
        return self.path

    def _dialogue(self, block: Block[bytes], place: str) -> Dialogue:
        first = line_number(place)
        turns = (
            Turn("AB"[index % 2], decode_line(raw, where))
            for index, (where, raw) in enumerate(block)
        )
        return Dialogue(first, tuple(turns), {"author": int(first) // self.stretch}, place=place)
