"""What is kept of an archive: regular files of known names, each below one folder, and bounded in size."""

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
"""From the path of each file in an archive to what opens it."""

BROKEN = (EOFError, OSError, RuntimeError, tarfile.TarError, zipfile.BadZipFile, zlib.error)
CHUNK = 2**20
LARGEST = 2**32


def unpack(archive: Path, patterns: tuple[str, ...], folder: Path) -> None:
    """Write the members of a zip or tar archive whose paths end as a pattern says into `folder`.

    A member has as much of its path in `folder` as its pattern has parts; `a.zip!b` is `b` in `a.zip` inside. Hidden
    files, which some systems add, are left out.

    Raises:
        UserError: nothing fits a pattern, a member that fits is no regular file, points out of the archive, or comes
            twice, the archive is damaged, or it gives more than 4 GiB, or 64 MiB and 300 times its size.
    """
    left = max(BOMB_SIZE, min(LARGEST, BOMB_RATIO * archive.stat().st_size))
    try:
        with archive.open("rb") as file:
            for pattern in patterns:
                left = _keep(file, pattern, folder, left)
    except BROKEN as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{archive.name} cannot be unpacked ({reason})") from error
    except UserError as error:
        raise UserError(f"{archive.name}: {error}") from error


def _keep(archive: IO[bytes], pattern: str, folder: Path, left: int) -> int:
    """Write what fits a pattern; how many bytes more may be written."""
    outer, _, inner = pattern.partition("!")
    with _members(archive) as members:
        names = [name for name in members if _fits(name, outer)]
        if not names:
            raise UserError(f"holds no {outer}")
        for name in names:
            with members[name]() as file:
                left = _keep(file, inner, folder, left) if inner else _copy(file, _target(name, outer, folder), left)
    return left


def _fits(name: str, pattern: str) -> bool:
    path = PurePosixPath(name)
    return path.match(pattern) and not path.name.startswith(".")


def _target(name: str, pattern: str, folder: Path) -> Path:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise UserError(f"{name} points out of the archive")
    target = folder.joinpath(*path.parts[-len(PurePosixPath(pattern).parts) :])
    if target.exists():
        raise UserError(f"{name} is there twice")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def _copy(source: IO[bytes], target: Path, left: int) -> int:
    with target.open("wb") as file:
        while part := source.read(CHUNK):
            left -= len(part)
            if left < 0:
                raise UserError(f"{target.name} gives more than such an archive should; it is not unpacked")
            file.write(part)
    return left


@contextmanager
def _members(archive: IO[bytes]) -> Iterator[Members]:
    """The files of an archive; of two with one path the last."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            yield {each: partial(opened.open, each) for each in opened.namelist() if not each.endswith("/")}
    else:
        archive.seek(0)
        with tarfile.open(fileobj=archive) as opened:
            yield {each.name: partial(_regular, opened, each) for each in opened if not each.isdir()}


def _regular(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    file = archive.extractfile(member) if member.isreg() else None
    if file is None:
        raise UserError(f"{member.name} is no regular file")
    return file
