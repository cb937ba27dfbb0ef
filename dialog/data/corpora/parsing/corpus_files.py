"""The files of a corpus: its folder, one file per split or a single file, and their digests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dialog.data.corpora.parsing.splits import split_by_hash
from dialog.data.dialogue import SPLITS, Entry
from dialog.data.reading.files import COMPRESSED, find_file, require_file, sha256
from dialog.errors import UserError


def require_path(path: Path | None, corpus: str, content: str) -> Path:
    """Return the corpus's path.

    Raises:
        UserError: no path is set.
    """
    if path is None:
        raise UserError(
            f"{corpus} needs {content}: set data.path=DIR, or DIALOG_DATA to the folder that holds"
            f" a folder {corpus}"
        )
    return Path(path)


def digests(root: Path, files: Iterable[Path]) -> dict[str, str]:
    """Map each file, as its path below `root`, to its SHA-256."""
    return {file.relative_to(root).as_posix(): sha256(file) for file in sorted(set(files))}


@dataclass(frozen=True)
class SplitFiles:
    """A folder with one file per split, or a single file, which `split_by_hash` divides.

    Files may be compressed (.gz, .xz, .zst).

    Args:
        path: The folder or the file.
        suffixes: Suffixes that the files in the folder may have; a split may have a file with only
            one of them.
        hint: Expected content of a file, for error messages.
        names: File names of the splits, without the suffix.
    """

    path: Path
    suffixes: tuple[str, ...]
    hint: str
    names: tuple[str, ...] = SPLITS

    def entries(self, split: str, read: Callable[[Path], Iterator[Entry]]) -> Iterator[Entry]:
        """Yield the entries of a split, parsed by `read`.

        Raises:
            UserError: a file is missing or holds no dialogue.
        """
        file = self._file(split)
        entries = self._not_empty(read(file), file)
        return entries if self.path.is_dir() else split_by_hash(entries, split)

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256."""
        root = self.path if self.path.is_dir() else self.path.parent
        return digests(root, map(self._file, SPLITS))

    def _not_empty(self, entries: Iterator[Entry], file: Path) -> Iterator[Entry]:
        for first in entries:
            yield first
            yield from entries
            return
        raise UserError(f"{file} holds no dialogue; {self.hint}")

    def _file(self, split: str) -> Path:
        if not self.path.is_dir():
            require_file(self.path, self.hint)
            return self.path
        name = self.names[SPLITS.index(split)]
        suffixes = [suffix for suffix in self.suffixes if self._holds(name + suffix)] or [
            self.suffixes[0]
        ]
        if len(suffixes) > 1:
            raise UserError(
                f"{self.path} holds {name + suffixes[0]} and {name + suffixes[1]}; remove one of"
                " them"
            )
        return find_file(self.path, name + suffixes[0], self.hint)

    def _holds(self, name: str) -> bool:
        return any((self.path / (name + suffix)).exists() for suffix in ("", *COMPRESSED))
