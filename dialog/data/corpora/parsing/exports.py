"""Files of a chat export: one file, a folder, or the zip archive that a program writes."""

from __future__ import annotations

import zipfile
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from dialog.data.corpora.parsing.chat_log import check_gap
from dialog.data.corpora.parsing.corpus_files import FileCorpus
from dialog.data.corpora.parsing.lines import decode_line
from dialog.data.corpora.parsing.splits import split_by_hash
from dialog.data.dialogue import Entry
from dialog.data.reading.files import (
    BYTE_ORDER_MARK,
    COMPRESSED,
    check_decompressed_size,
    find_files,
    read_chunks,
    require_file,
)
from dialog.errors import UserError

ZIP = b"PK\x03\x04"
"""First bytes of a zip archive."""


class ExportedFile(NamedTuple):
    """A file of an export: its path in a folder or archive (its name if it is alone), the place for
    errors, and its content.
    """

    name: str
    place: str
    content: bytes

    def text(self) -> str:
        """Return the content without a byte order mark.

        Raises:
            UserError: it is not UTF-8.
        """
        return decode_line(self.content.removeprefix(BYTE_ORDER_MARK), self.place)

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """Yield (place:line, line) without a byte order mark."""
        raw = self.content.removeprefix(BYTE_ORDER_MARK)
        for number, line in enumerate(raw.split(b"\n"), start=1):
            yield f"{self.place}:{number}", line


def files_of(path: Path, pattern: str, hint: str) -> list[Path]:
    """Return the files that `exported_files` reads: the path itself, or those below a folder."""
    if path.is_dir():
        return find_files(path, f"**/{pattern}", hint)
    require_file(path, hint)
    return [path]


def exported_files(path: Path, pattern: str, hint: str) -> Iterator[ExportedFile]:
    """Yield the files of an export, sorted by name; one content at a time is read.

    Args:
        path: A file, a folder, or a zip archive.
        pattern: `fnmatch` pattern of the names in a folder or archive.
        hint: Expected content, for error messages.

    Raises:
        UserError: with the path; nothing matches, or a file cannot be read.
    """
    root = path if path.is_dir() else path.parent
    for file in files_of(path, pattern, hint):
        if zipfile.is_zipfile(file):
            yield from _members(file, pattern, hint)
        else:
            content = b"".join(read_chunks(file))
            if content.startswith(ZIP):
                raise UserError(f"{file} is a truncated zip archive; export it again")
            yield ExportedFile(_plain(file.relative_to(root).as_posix()), str(file), content)


class ExportCorpus(FileCorpus):
    """Chats that a program exported to a file, a folder or a zip archive.

    `split_by_hash` divides the dialogues; `gap` is the longest pause within one, in seconds.

    Args:
        path: The file, the folder or the archive.
        corpus: Name of the corpus, for error messages.
        content: What `path` holds, for the error message without a path.
        pattern: `fnmatch` pattern of the files that are read.
        hint: Expected content, for error messages.
        gap_hours: Longest pause within a dialogue.

    Raises:
        UserError: no path, or a `gap_hours` of 0 or less.
    """

    def __init__(
        self,
        path: Path | None,
        corpus: str,
        content: str,
        *,
        pattern: str,
        hint: str,
        gap_hours: float,
    ) -> None:
        super().__init__(path, corpus, content)
        self.pattern = pattern
        self.hint = hint
        self.gap = check_gap(corpus, gap_hours)

    @abstractmethod
    def entries(self) -> Iterator[Entry]:
        """Yield the dialogues of all splits, chat by chat."""

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split, chat by chat."""
        return split_by_hash(_check_not_empty(self.entries(), self.path, self.hint), split)

    def files(self) -> Iterable[Path]:
        """Return the file, or those of the folder."""
        return files_of(self.path, self.pattern, self.hint)

    def exported(self) -> Iterator[ExportedFile]:
        """Yield the files of the export."""
        return exported_files(self.path, self.pattern, self.hint)


def _check_not_empty(entries: Iterable[Entry], path: Path, hint: str) -> Iterator[Entry]:
    """Yield the entries.

    Raises:
        UserError: there is none.
    """
    empty = True
    for entry in entries:
        empty = False
        yield entry
    if empty:
        raise UserError(f"{path} holds no dialogue; {hint}")


def _plain(name: str) -> str:
    """Return a name without the suffix of a compressed file."""
    for suffix in COMPRESSED:
        name = name.removesuffix(suffix)
    return name


def _members(archive: Path, pattern: str, hint: str) -> Iterator[ExportedFile]:
    try:
        with zipfile.ZipFile(archive) as opened:
            members = sorted(
                (info for info in opened.infolist() if _matches(info, pattern)),
                key=lambda info: info.filename,
            )
            if not members:
                raise UserError(f"{archive} holds no {pattern}; {hint}")
            size = archive.stat().st_size
            total = 0
            for info in members:
                # a member gives at most the size that it states
                total += info.file_size
                check_decompressed_size(archive, total, size)
                place = f"{archive}/{info.filename}"
                yield ExportedFile(info.filename, place, opened.read(info))
    # zipfile raises RuntimeError for an encrypted member, NotImplementedError for a compression or
    # version that it lacks
    except (OSError, RuntimeError, NotImplementedError, zipfile.BadZipFile, EOFError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{archive} cannot be unpacked ({reason}); export it again") from error


def _matches(info: zipfile.ZipInfo, pattern: str) -> bool:
    path = PurePosixPath(info.filename)
    hidden = path.name.startswith(".") or "__MACOSX" in path.parts
    return not info.is_dir() and not hidden and fnmatchcase(path.name, pattern)
