"""Find and open untrusted files: regular files only, read completely, decompressed within bounded
memory.
"""

from __future__ import annotations

import codecs
import hashlib
import lzma
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from io import BufferedReader, RawIOBase, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from dialog.errors import UserError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

COMPRESSED = (".gz", ".xz", ".zst")
BYTE_ORDER_MARK = codecs.BOM_UTF8
UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
LONGEST_LINE = 64 * 2**20
BOMB_RATIO = 300
BOMB_SIZE = 64 * 2**20
"""A compressed file that yields more than `BOMB_SIZE` bytes and `BOMB_RATIO` times its own size is
an error.
"""
XZ_CHUNK = 2**17
XZ_MEMORY = 2**28
"""Most bytes of memory for decompression; the strongest preset needs a quarter of it."""


def require_file(path: Path, hint: str) -> None:
    """Raise a UserError that ends with `hint` unless `path` is a readable regular file."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UserError(f"{path} is not a regular file; {hint}")
        with path.open("rb"):
            pass
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist; {hint}") from error
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read ({getattr(error, 'strerror', error)}); {hint}"
        ) from error


def find_file(folder: Path, name: str, hint: str) -> Path:
    """Return the path of a file, plain or compressed (with .gz, .xz or .zst appended to its name).

    Raises:
        UserError: the file is missing, or exists in more than one form.
    """
    paths = [
        path for suffix in ("", *COMPRESSED) if os.path.exists(path := folder / (name + suffix))
    ]
    if len(paths) > 1:
        raise UserError(f"{paths[0]} and {paths[1].name} are both there; keep only one")
    path = paths[0] if paths else folder / name
    require_file(path, hint)
    return path


def find_files(folder: Path, pattern: str, hint: str) -> list[Path]:
    """Return the files of a folder that match a pattern of `find_names`, sorted by name.

    Raises:
        UserError: no file matches, one exists in more than one form, or a folder cannot be read.
    """
    names = find_names(folder, pattern)
    if not names:
        raise UserError(f"{folder} holds no {pattern}; {hint}")
    return [find_file(folder, name, hint) for name in names]


def find_names(folder: Path, pattern: str) -> list[str]:
    """Return the sorted paths below a folder, without .gz, .xz or .zst, that match a pattern.

    The parts of a pattern are `fnmatch` patterns, or `**` for any number of folders. Hidden names,
    which start with a full stop, never match.

    Raises:
        UserError: a folder cannot be read.
    """
    return sorted(
        {path.relative_to(folder).as_posix() for path in _matches(folder, pattern.split("/"))}
    )


def _matches(folder: Path, parts: Sequence[str]) -> Iterator[Path]:
    """Yield the paths below a folder that match the parts of a pattern, without .gz, .xz or
    .zst.
    """
    first, *rest = parts
    try:
        with os.scandir(folder) as scan:
            visible = (entry for entry in scan if not entry.name.startswith("."))
            entries = [
                (entry.name, entry.is_dir(follow_symlinks=first != "**")) for entry in visible
            ]
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise UserError(
            f"{folder} cannot be read ({error.strerror}); check its permissions"
        ) from error
    if first == "**":
        yield from _matches(folder, rest)
    for name, is_folder in entries:
        if not rest:
            yield from (
                folder / name.removesuffix(end)
                for end in ("", *COMPRESSED)
                if fnmatchcase(name, first + end)
            )
        elif is_folder and (first == "**" or fnmatchcase(name, first)):
            yield from _matches(folder / name, parts if first == "**" else rest)


def all_or_none(folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the paths of files that belong together (see `find_file`), or an empty list if all are
    missing.
    """
    if not any(
        os.path.exists(folder / (name + end)) for name in names for end in ("", *COMPRESSED)
    ):
        return []
    return [find_file(folder, name, f"it belongs with {', '.join(names)}") for name in names]


def stem(path: Path) -> str:
    """Return the name of a file up to its first dot."""
    return path.name.partition(".")[0]


def raw_lines(
    path: Path, encoding: str | None = None, span: tuple[int, int] | None = None
) -> Iterator[bytes]:
    """Yield the lines of a file with their line ends, decompressed according to its suffix.

    With `encoding`, lines are converted from it to UTF-8. With `span`, only the lines of a file
    that is not compressed which begin at bytes [start:end].

    Raises:
        UserError: with the path; the file is damaged or truncated, has a line of more than 64 MiB,
            or is a decompression bomb.
    """
    total = 0
    with _opened(path) as file:
        size = path.stat().st_size
        readline = _converting(file, encoding) if encoding else file.readline
        if span:
            file.seek(span[0])
        while line := readline(LONGEST_LINE + 1):
            total += len(line)
            check_decompressed_size(path, total, size)
            if len(line) > LONGEST_LINE:
                raise UserError(
                    f"{path}: a line is longer than {LONGEST_LINE:,} bytes; is this a text of"
                    " lines?"
                )
            yield line
            if span and total >= span[1] - span[0]:
                return


def _converting(file: BinaryIO, encoding: str) -> Callable[[int], bytes]:
    """Return a `readline` of text in another encoding, which returns UTF-8; only LF ends a line."""
    text = TextIOWrapper(file, encoding, newline="\n")
    return lambda limit: text.readline(limit).encode()


def has_utf16_mark(path: Path) -> bool:
    """Return whether a file starts with the byte order mark of UTF-16; errors as in `raw_lines`."""
    with _opened(path) as file:
        return file.read(2) in UTF16_MARKS


def read_chunks(path: Path) -> Iterator[bytes]:
    """Yield the content of a file in chunks, decompressed according to its suffix; errors as in
    `raw_lines`.
    """
    total = 0
    with _opened(path) as file:
        size = path.stat().st_size
        while chunk := file.read(2**20):
            total += len(chunk)
            check_decompressed_size(path, total, size)
            yield chunk


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal; errors as in `raw_lines`."""
    with _read_errors_as_user_errors(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _read_errors_as_user_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # the libraries' errors share no narrower class
        raise UserError(
            f"{path} cannot be read to its end ({str(error) or type(error).__name__}); get it again"
        ) from error


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file, decompressed according to its suffix; its first `BOMB_SIZE` bytes are tested for
    a bomb.
    """
    with _read_errors_as_user_errors(path), path.open("rb") as packed:
        if path.suffix not in COMPRESSED:
            yield packed
            return
        # reading short lines up to the limit could take hours
        with _decompressed(packed, path.suffix) as file:
            total = sum(len(file.read(2**20)) for _ in range(BOMB_SIZE // 2**20 + 1))
            check_decompressed_size(path, total, packed.tell())
        packed.seek(0)
        with _decompressed(packed, path.suffix) as file:
            yield file


def _decompressed(packed: BinaryIO, suffix: str) -> BinaryIO:
    if suffix == ".gz":
        import gzip

        return cast(BinaryIO, gzip.open(packed))
    if suffix == ".xz":
        return cast(BinaryIO, BufferedReader(XzReader(packed), 2**17))
    return _open_zst(packed)


def _open_zst(packed: BinaryIO) -> BinaryIO:
    import sys

    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return cast(BinaryIO, zstd.open(packed))


def check_decompressed_size(
    path: Path, decompressed: int, size: int, fix: str = "unpack it yourself"
) -> None:
    """Raise a UserError if the number of bytes that a file of `size` bytes has yielded shows a
    decompression bomb.
    """
    if decompressed > BOMB_SIZE and decompressed > BOMB_RATIO * size:
        raise UserError(
            f"{path} gives more than {BOMB_RATIO} times its size; {fix} if that is right"
        )


class XzReader(RawIOBase):
    """Decompressed content of all concatenated xz streams of a file.

    `lzma.open` would silently stop at junk after the first stream or at a damaged second one.
    Streams may be followed by padding: zero bytes, in multiples of four, as the format defines.

    Args:
        packed: The compressed file.
    """

    def __init__(self, packed: BinaryIO) -> None:
        self.packed = packed
        self.stream = _new_stream()

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill part of the buffer and return the number of bytes; 0 at the end.

        Raises:
            EOFError: a stream is truncated.
            lzma.LZMAError: a stream is damaged, or followed by other data.
        """
        room = memoryview(buffer)
        while True:
            if self.stream.eof:
                more = self._next_stream_start()
                if not more:
                    return 0
                self.stream = _new_stream()
            else:
                more = self.packed.read(XZ_CHUNK) if self.stream.needs_input else b""
                if self.stream.needs_input and not more:
                    raise EOFError("the compressed file is truncated")
            if data := self.stream.decompress(more, len(room)):
                room[: len(data)] = data
                return len(data)

    def _next_stream_start(self) -> bytes:
        """Skip the padding after a stream and return the first bytes behind it; none at the end of
        the file.
        """
        padding = 0
        more = self.stream.unused_data or self.packed.read(XZ_CHUNK)
        while more and not more.strip(b"\0"):
            padding += len(more)
            more = self.packed.read(XZ_CHUNK)
        rest = more.lstrip(b"\0")
        if (padding + len(more) - len(rest)) % 4:
            raise lzma.LZMAError("the padding after a stream is not a multiple of four bytes")
        return rest


def _new_stream() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY)
