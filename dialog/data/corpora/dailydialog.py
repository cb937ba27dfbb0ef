"""DailyDialog (Li et al. 2017, https://aclanthology.org/I17-1099), as its official archive holds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dialog.data.corpora.textfile import numbered_lines, require_file, sha256
from dialog.data.dialogue import SPLITS, Dialogue, Turn
from dialog.errors import UserError

END = "__eou__"
WHERE = "set data.path=DIR, or DIALOG_DATA to the folder that holds a folder dailydialog"


class DailyDialog:
    """Reads `<path>/<split>/dialogues_<split>.txt`: a dialogue a line, ` __eou__` after every turn.

    Two speakers, "A" and "B", alternate. Ids are `<split>-<line number>`. A blank line is a dialogue without turns
    and nothing between two marks is a turn without text, so that whoever drops them can count them.

    Raises:
        UserError: no path, a missing file, a byte that is not UTF-8, or a line that does not end with the mark.
    """

    def __init__(self, path: Path | None) -> None:
        if path is None:
            raise UserError(f"dailydialog needs the unpacked archive (train/dialogues_train.txt, ...); {WHERE}")
        self.path = Path(path)

    def dialogues(self, split: str) -> Iterator[Dialogue]:
        """Yield the dialogues of a split in the order of its file."""
        file = self._file(split)
        for number, line in numbered_lines(file):
            yield Dialogue(f"{split}-{number}", _turns(line, where=f"{file}:{number}"))

    def fingerprint(self) -> dict[str, str]:
        """Map the three files to their SHA-256."""
        files = {split: self._file(split) for split in SPLITS}
        return {file.relative_to(self.path).as_posix(): sha256(file) for file in files.values()}

    def _file(self, split: str) -> Path:
        file = self.path / split / f"dialogues_{split}.txt"
        require_file(file, f"the unpacked archive of DailyDialog should hold it; {WHERE}")
        return file


def _turns(line: str, *, where: str) -> tuple[Turn, ...]:
    *texts, rest = (piece.strip(" ") for piece in line.split(END))
    if rest:
        raise UserError(f"{where}: text after the last {END}; end every turn with {END}")
    return tuple(Turn("AB"[position % 2], text) for position, text in enumerate(texts))
