"""Corpora that are read from files: one folder, with one file per split, or a single file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dialog.data.corpora.parsing.splits import split_by_hash
from dialog.data.dialogue import SPLITS, Entry
from dialog.data.reading.files import COMPRESSED, find_file, require_file, sha256
from dialog.data.reading.parts import Part, line_parts
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


def digests(path: Path, files: Iterable[Path]) -> dict[str, str]:
    """Map each file to its SHA-256; `path` is the folder to which their paths are relative, or the
    only file.
    """
    root = path if path.is_dir() else path.parent
    return {file.relative_to(root).as_posix(): sha256(file) for file in sorted(set(files))}


class FileCorpus(ABC):
    """A corpus that is read from files, on which alone its dialogues and its fingerprint depend.

    Args:
        path: The folder, or the only file.
        corpus: Name of the corpus, for the error message if there is no path.
        content: What `path` holds, for the same message.
    """

    def __init__(self, path: Path | None, corpus: str, content: str) -> None:
        self.path = require_path(path, corpus, content)

    @abstractmethod
    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split; see `Corpus`."""

    @abstractmethod
    def files(self) -> Iterable[Path]:
        """Return all files that are read for any split."""

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256."""
        return digests(self.path, self.files())


class SplitFileCorpus(FileCorpus):
    """A folder with one file per split, or a single file, which `split_by_hash` divides.

    Files may be compressed (.gz, .xz, .zst).

    Args:
        path: The folder or the file.
        corpus: Name of the corpus, for error messages.
        suffixes: Suffixes that the files in the folder may have; a split may have a file with only
            one of them.
        hint: Expected content of a file, for error messages.
        names: File names of the splits, without the suffix.
    """

    def __init__(
        self,
        path: Path | None,
        corpus: str,
        suffixes: tuple[str, ...],
        hint: str,
        names: tuple[str, str, str] = SPLITS,
    ) -> None:
        train, validation, test = (name + suffixes[0] for name in names)
        super().__init__(path, corpus, f"a folder with {train}, {validation} and {test}, or a file")
        self.suffixes = suffixes
        self.hint = hint
        self.names = dict(zip(SPLITS, names, strict=True))

    @abstractmethod
    def read(self, file: Path, split: str) -> Iterator[Entry]:
        """Yield the entries of a file, which is read for `split`."""

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split in the order of its file.

        Raises:
            UserError: a file is missing or holds no dialogue.
        """
        file = self._file(split)
        entries = self._not_empty(self.read(file, split), file)
        return entries if self.path.is_dir() else split_by_hash(entries, split)

    def files(self) -> Iterable[Path]:
        """Return the files of the splits, or the single file."""
        return map(self._file, SPLITS)

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
        name = self.names[split]
        existing = [name + suffix for suffix in self.suffixes if self._holds(name + suffix)]
        if len(existing) > 1:
            raise UserError(
                f"{self.path} holds {existing[0]} and {existing[1]}; remove one of them"
            )
        return find_file(self.path, existing[0] if existing else name + self.suffixes[0], self.hint)

    def _holds(self, name: str) -> bool:
        return any((self.path / (name + suffix)).exists() for suffix in ("", *COMPRESSED))


class LineFileCorpus(SplitFileCorpus):
    """A `SplitFileCorpus` of text files that can be read from the middle, at the start of a line.

    It is a `DivisibleCorpus`.
    """

    @abstractmethod
    def read_part(self, file: Path, split: str, part: Part | None) -> Iterator[Entry]:
        """Yield the entries of a part of a file, or of the whole file."""

    def read(self, file: Path, split: str) -> Iterator[Entry]:
        """Yield the entries of a file."""
        return self.read_part(file, split, None)

    def parts(self, split: str) -> Sequence[Part]:
        """Return the parts of the file of a split; see `DivisibleCorpus`."""
        return line_parts(self._file(split))

    def part(self, split: str, part: Part) -> Iterator[Entry]:
        """Yield the dialogues of a part; see `DivisibleCorpus`."""
        entries = self.read_part(self._file(split), split, part)
        return entries if self.path.is_dir() else split_by_hash(entries, split)
