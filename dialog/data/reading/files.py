"""Files from elsewhere, opened with care: regular, read to their end, and bounded in memory whatever they hold."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, cast

from dialog.data.reading.xz import XzStreams
from dialog.errors import UserError

COMPRESSED = (".gz", ".xz", ".zst")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_LINE = 64 * 2**20
BOMB_RATIO = 300
BOMB_SIZE = 64 * 2**20
"""A compressed file is refused once it has given more than so many bytes, and so many times its own size."""


def require_file(path: Path, hint: str) -> None:
    """Raise a UserError that ends with `hint` unless `path` is a regular file that may be read."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UserError(f"{path} is not a regular file; {hint}")
        with path.open("rb"):
            pass
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist; {hint}") from error
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({getattr(error, 'strerror', error)}); {hint}") from error


def find_file(folder: Path, name: str, hint: str) -> Path:
    """The file `name` of a folder, or the one compressed file of that name with .gz, .xz or .zst after it.

    Raises:
        UserError: there is none, or more than one.
    """
    there = [path for suffix in ("", *COMPRESSED) if os.path.exists(path := folder / (name + suffix))]
    if len(there) > 1:
        raise UserError(f"{there[0]} and {there[1].name} are both there; keep the one that counts")
    path = there[0] if there else folder / name
    require_file(path, hint)
    return path


def find_files(folder: Path, pattern: str, hint: str) -> list[Path]:
    """The files of a folder whose names fit a pattern, as `find_names` has it; sorted by these names.

    Raises:
        UserError: there is none, one of them is there twice, or a folder on the way to them cannot be read.
    """
    names = find_names(folder, pattern)
    if not names:
        raise UserError(f"{folder} holds no {pattern}; {hint}")
    return [find_file(folder, name, hint) for name in names]


def find_names(folder: Path, pattern: str) -> list[str]:
    """The paths below a folder, without .gz, .xz or .zst, that fit a pattern; sorted.

    A pattern is of folders and a file as `fnmatch` has them, and `**` for folders of any depth, none included. Hidden
    names, which begin with a full stop, fit none.

    Raises:
        UserError: a folder on the way to them cannot be read.
    """
    return sorted({path.relative_to(folder).as_posix() for path in _fitting(folder, pattern.split("/"))})


def _fitting(folder: Path, parts: Sequence[str]) -> Iterator[Path]:
    """What is below a folder and fits the parts of a pattern, without .gz, .xz or .zst."""
    first, *rest = parts
    try:
        with os.scandir(folder) as there:
            seen = [(each.name, each.is_dir(follow_symlinks=first != "**")) for each in there if each.name[0] != "."]
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise UserError(f"{folder} cannot be read ({error.strerror}); give yourself the right to") from error
    if first == "**":
        yield from _fitting(folder, rest)
    for name, is_folder in seen:
        if not rest:
            yield from (folder / name.removesuffix(end) for end in ("", *COMPRESSED) if fnmatchcase(name, first + end))
        elif is_folder and (first == "**" or fnmatchcase(name, first)):
            yield from _fitting(folder / name, parts if first == "**" else rest)


def all_or_none(folder: Path, names: Sequence[str]) -> list[Path]:
    """The files of a folder by their names as `find_file` has them, or none where none of them is there."""
    if not any(os.path.exists(folder / (name + end)) for name in names for end in ("", *COMPRESSED)):
        return []
    return [find_file(folder, name, f"it belongs with {', '.join(names)}") for name in names]


def stem(path: Path) -> str:
    """The name of a file up to its first dot."""
    return path.name.partition(".")[0]


def raw_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, each with its end, decompressed where its name says so.

    Raises:
        UserError: with the file, when it is damaged or cut off, a line is longer than 64 MiB, or so much comes out of
            so small a file that it can only be meant to fill the memory.
    """
    given = 0
    with _opened(path) as file:
        size = path.stat().st_size
        while line := file.readline(LONGEST_LINE + 1):
            given += len(line)
            refuse_bomb(path, given, size)
            if len(line) > LONGEST_LINE:
                raise UserError(f"{path}: a line is longer than {LONGEST_LINE:,} bytes; is this a text of lines?")
            yield line


def pieces(path: Path) -> Iterator[bytes]:
    """What a file holds, a piece at a time, decompressed where its name says so; errors as `raw_lines`."""
    given = 0
    with _opened(path) as file:
        size = path.stat().st_size
        while piece := file.read(2**20):
            given += len(piece)
            refuse_bomb(path, given, size)
            yield piece


def sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal; errors as `raw_lines`."""
    with _to_the_end(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _to_the_end(path: Path) -> Iterator[None]:
    """What goes wrong while a file is read is the user's to mend."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # the libraries' errors have nothing narrower in common
        raise UserError(
            f"{path} cannot be read to its end ({str(error) or type(error).__name__}); get it again"
        ) from error


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a file, decompressed where its name says so, unless its beginning already shows a bomb."""
    with _to_the_end(path), path.open("rb") as packed:
        if path.suffix not in COMPRESSED:
            yield packed
            return
        with _unpacked(packed, path.suffix) as file:  # lines may be so short that they would take hours to a bomb's end
            refuse_bomb(path, sum(len(file.read(2**20)) for _ in range(BOMB_SIZE // 2**20 + 1)), packed.tell())
        packed.seek(0)
        with _unpacked(packed, path.suffix) as file:
            yield file


def _unpacked(packed: BinaryIO, suffix: str) -> BinaryIO:
    if suffix == ".gz":
        import gzip

        return cast(BinaryIO, gzip.open(packed))
    if suffix == ".xz":
        return cast(BinaryIO, BufferedReader(XzStreams(packed), 2**17))
    return _open_zst(packed)


def _open_zst(packed: BinaryIO) -> BinaryIO:
    import sys

    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return cast(BinaryIO, zstd.open(packed))


def refuse_bomb(path: Path, given: int, size: int, mend: str = "unpack it yourself") -> None:
    """Raise a UserError where a file of so small a size has given so much that it can only fill the memory."""
    if given > BOMB_SIZE and given > BOMB_RATIO * size:
        raise UserError(f"{path} gives more than {BOMB_RATIO} times its size; {mend} if that is right")
