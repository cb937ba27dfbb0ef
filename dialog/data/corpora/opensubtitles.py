"""OpenSubtitles (Lison and Tiedemann 2016, https://aclanthology.org/L16-1147), the monolingual text that OPUS gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dialog.data.corpora.parsing.records import Block, block_records, decoded, digests, numbered, require_path, share
from dialog.data.dialogue import Dialogue, Entry, Turn
from dialog.data.reading.files import find_file, require_file
from dialog.errors import UserError


class OpenSubtitles:
    """Reads lines of subtitles, as `<path>/<language>.txt` or a file of any name: so many in a row are a dialogue.

    The file tells neither who speaks nor where a scene or a film ends, so "A" and "B" alternate and some dialogues
    change the subject. The id of a dialogue is the number of its first line. All dialogues that begin in one stretch of
    lines fall to the same split, by the rule of `parsing.records.share`, so that neighbours in a film are
    on one side of it. The file is read as a stream and may be compressed (.gz, .xz, .zst).

    Args:
        path: The file, or the folder that holds it.
        language: The file's name in the folder, without `.txt`.
        turns: Lines a dialogue, at least 2; the last may have fewer.
        stretch: Lines that fall to the same split; by default those of about ten films.
    """

    def __init__(self, path: Path | None, *, language: str = "en", turns: int = 6, stretch: int = 10_000) -> None:
        self.path = require_path(path, "opensubtitles", f"a folder with {language}.txt.gz, or a file of lines")
        if turns < 2 or stretch < turns:
            raise UserError(
                f"corpus opensubtitles: turns is {turns} and stretch {stretch}; set 2 or more, and no less than turns"
            )
        self.language, self.turns, self.stretch = language, turns, stretch

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of the file."""
        found = block_records(numbered(self._file()), lambda block, _: len(block) == self.turns, self._dialogue)
        return share(found, split)

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
        first = place.rpartition(":")[2]
        turns = (Turn("AB"[index % 2], decoded(raw, where)) for index, (where, raw) in enumerate(block))
        return Dialogue(first, tuple(turns), {"author": int(first) // self.stretch}, place=place)
