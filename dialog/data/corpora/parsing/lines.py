"""Read the lines of a text file, each with its file and line number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from dialog.data.corpora.parsing.records import records
from dialog.data.dialogue import Malformed
from dialog.data.reading.files import BYTE_ORDER_MARK, UTF16_MARKS, has_utf16_mark, raw_lines
from dialog.data.reading.parts import Part
from dialog.errors import UserError

R = TypeVar("R")


def byte_lines(
    path: Path, encoding: str | None = None, part: Part | None = None
) -> Iterator[tuple[str, bytes]]:
    """Yield (file:line, line with its end), without a byte order mark; with `encoding`, converted
    from it to UTF-8. With `part`, only its lines.

    Raises:
        UserError: the file is empty, or UTF-16 without that `encoding`.
    """
    number = 0
    span = None if part is None else (part.start, part.end)
    first = 1 if part is None else part.before + 1
    for number, raw in enumerate(raw_lines(path, encoding, span), start=first):
        if number == 1 and raw.startswith(UTF16_MARKS):
            raise UserError(
                f"{path} is UTF-16; convert it to UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW"
            )
        yield f"{path}:{number}", raw.removeprefix(BYTE_ORDER_MARK) if number == 1 else raw
    if number == 0:
        raise UserError(f"{path} is empty; it should hold dialogues")


def text_lines(path: Path, encoding: str | None = None) -> Iterator[tuple[str, str]]:
    """Yield (file:line, line without its end); errors as `byte_lines` and `decode_line`.

    A UTF-16 file with a byte order mark, as Excel writes, is read as UTF-16 whatever `encoding` is.
    """
    if has_utf16_mark(path):
        yield from ((place, decode_line(raw, place)) for place, raw in byte_lines(path, "utf-16"))
    else:
        yield from ((place, decode_line(raw, place, encoding)) for place, raw in byte_lines(path))


def line_records(
    path: Path,
    parse: Callable[[str, str], R | None],
    encoding: str | None = None,
    part: Part | None = None,
) -> Iterator[R | Malformed]:
    """Yield `records` of the lines of a file, without their ends; a line that does not decode is
    malformed.

    Blank lines are skipped.
    """
    lines = ((place, raw) for place, raw in byte_lines(path, part=part) if raw.strip())
    return records(lines, lambda raw, place: parse(decode_line(raw, place, encoding), place))


def decode_line(raw: bytes, place: str, encoding: str | None = None) -> str:
    """Decode a line and remove its LF or CRLF; other Unicode line separators are text.

    None is UTF-8, in a corpus without the option `encoding`; `NAME:replace` reads undecodable bytes
    as U+FFFD.

    Raises:
        UserError: an undecodable byte, with its position, or an unknown encoding.
    """
    name, _, errors = (encoding or "utf-8").partition(":")
    try:
        line = raw.decode(name, errors or "strict")
    except UnicodeDecodeError as error:
        option = (
            "set data.corpus.encoding, such as cp1252 for a file of Windows, or "
            if encoding
            else ""
        )
        problem = f"byte {error.start + 1} of the line is not {name.upper()}"
        raise UserError(f"{place}: {problem}; {option}convert the file to UTF-8") from error
    except (LookupError, ValueError) as error:
        raise UserError(
            f"{place}: no encoding {encoding!r} for lines of text ({error}); try utf-8"
        ) from error
    return line.removesuffix("\n").removesuffix("\r")


def line_number(place: str) -> str:
    """Return the line number of file:line."""
    return place.rpartition(":")[2]
