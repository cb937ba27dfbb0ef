"""Text files read strictly: regular, UTF-8, lines that end with a line feed and nothing else."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterator
from pathlib import Path

from dialog.errors import UserError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def require_file(path: Path, hint: str) -> None:
    """Raise a UserError that ends with `hint` unless `path` is a regular file that may be read."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UserError(f"{path} is not a regular file; {hint}")
        with path.open("rb"):
            pass
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist; {hint}") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); {hint}") from error


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (1-based number, line without its end) of a file.

    Lines end with LF or CRLF; other characters that Unicode counts as line ends (U+0085, U+2028, ...) are text.

    Raises:
        UserError: a byte that is not UTF-8, with file:line, or a file without any character.
    """
    number = 0
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if number == 1:
                raw = raw.removeprefix(BYTE_ORDER_MARK)
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise UserError(
                    f"{path}:{number}: byte {error.start + 1} of the line is not UTF-8; convert the file to UTF-8"
                ) from error
            yield number, line.removesuffix("\n").removesuffix("\r")
    if number == 0:
        raise UserError(f"{path} is empty; it should hold one dialogue a line")


def sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
