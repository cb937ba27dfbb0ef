"""Extract selected members of zip and tar archives: regular files only, below one folder, of
bounded size.
"""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from dialog.data.reading.files import BOMB_RATIO, BOMB_SIZE
from dialog.errors import UserError

Members = dict[str, Callable[[], IO[bytes]]]
"""Map the path of each file in an archive to a function that opens it."""

BROKEN = (EOFError, OSError, RuntimeError, tarfile.TarError, zipfile.BadZipFile, zlib.error)
CHUNK = 2**20
LARGEST = 2**32


def unpack(archive: Path, patterns: tuple[str, ...], folder: Path) -> None:
    """Extract the members of a zip or tar archive whose paths end in a match of one of the
    patterns.

    The path below `folder` has as many parts as the pattern. `a.zip!b` selects `b` in the inner
    archive `a.zip`. Hidden files, which some systems add, are skipped.

    Raises:
        UserError: a pattern matches nothing; a match is not a regular file, points out of the
            archive, or is listed twice; the archive is damaged; or it yields more than 4 GiB, or
            more than 64 MiB and 300 times its size.
    """
    remaining = max(BOMB_SIZE, min(LARGEST, BOMB_RATIO * archive.stat().st_size))
    try:
        with archive.open("rb") as file:
            for pattern in patterns:
                remaining = _extract(file, pattern, folder, remaining)
    except BROKEN as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{archive.name} cannot be unpacked ({reason})") from error
    except UserError as error:
        raise UserError(f"{archive.name}: {error}") from error


def _extract(archive: IO[bytes], pattern: str, folder: Path, remaining: int) -> int:
    """Extract the matches of a pattern; return how many more bytes may be written."""
    outer, _, inner = pattern.partition("!")
    with _members(archive) as members:
        names = [name for name in members if _matches(name, outer)]
        if not names:
            raise UserError(f"holds no {outer}")
        for name in names:
            with members[name]() as file:
                if inner:
                    remaining = _extract(file, inner, folder, remaining)
                else:
                    remaining = _copy(file, _target(name, outer, folder), remaining)
    return remaining


def _matches(name: str, pattern: str) -> bool:
    path = PurePosixPath(name)
    return path.match(pattern) and not path.name.startswith(".")


def _target(name: str, pattern: str, folder: Path) -> Path:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise UserError(f"{name} points out of the archive")
    target = folder.joinpath(*path.parts[-len(PurePosixPath(pattern).parts) :])
    if target.exists():
        raise UserError(f"{name} is listed twice")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def _copy(source: IO[bytes], target: Path, remaining: int) -> int:
    with target.open("wb") as file:
        while part := source.read(CHUNK):
            remaining -= len(part)
            if remaining < 0:
                raise UserError(
                    f"{target.name} is too large for an archive of this size; it is not unpacked"
                )
            file.write(part)
    return remaining


@contextmanager
def _members(archive: IO[bytes]) -> Iterator[Members]:
    """Open an archive and map its files; the last of several with one path counts."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            yield {
                name: partial(opened.open, name)
                for name in opened.namelist()
                if not name.endswith("/")
            }
    else:
        archive.seek(0)
        with tarfile.open(fileobj=archive) as opened:
            yield {
                member.name: partial(_open_regular, opened, member)
                for member in opened
                if not member.isdir()
            }


def _open_regular(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    file = archive.extractfile(member) if member.isreg() else None
    if file is None:
        raise UserError(f"{member.name} is not a regular file")
    return file
