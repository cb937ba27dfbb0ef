"""Strict JSON: no repeated keys, finite numbers only.

Long files are parsed one member at a time.
"""

from __future__ import annotations

import json
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from dialog.data.reading.files import BYTE_ORDER_MARK, LONGEST_LINE, read_chunks
from dialog.errors import UserError

Json = Any
"""A parsed JSON value."""

WHITE = frozenset(" \t\n\r")


def json_members(path: Path) -> Iterator[tuple[str, Json | UserError]]:
    """Yield (key, value) for each member of a file that is one JSON object or array, parsed as by
    `parse_json`.

    One member is in memory at a time. The key of an array member is its number, counted from 1. A
    member that is valid but not strict JSON yields its UserError as the value.

    Raises:
        UserError: with the path; the file is not JSON, holds another value, or has a member of more
            than 64 Mi characters.
    """
    text = _JsonReader(path)
    opening = text.upcoming()
    if opening not in ("{", "["):
        text.value()
        raise no_members_error(path)
    text.at += 1
    keys: set[str] = set()
    number = 0
    while number or text.upcoming() not in ("}", "]"):
        number += 1
        key = str(number)
        if opening == "{":
            text.require('"', "Expecting property name enclosed in double quotes")
            key = str(text.value())
            text.require(":", "Expecting ':' delimiter")
            text.at += 1
            if key in keys:
                raise text.error(_repeated_key(key))
            keys.add(key)
        text.upcoming()
        yield key, text.value()
        if text.upcoming() in ("}", "]"):
            break
        text.require(",", "Expecting ',' delimiter")
        text.at += 1
    text.require("}" if opening == "{" else "]", "Expecting ',' delimiter")
    text.at += 1
    text.require("", "Extra data")


def no_members_error(path: Path) -> UserError:
    """Return the error for a file that is not a JSON object or array, or an empty one."""
    return UserError(f"{path} holds no dialogues; it should be a JSON object or array of them")


class _JsonReader:
    """Incremental reader that holds only the text that the next value needs.

    Attributes:
        text: The text in memory.
        at: Position in `text` of the first unread character.
        lines: Number of lines before `text`.
        characters: Number of characters before `text` on its first line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.chunks = _text_chunks(path)
        self.text = ""
        self.at = 0
        self.lines = self.characters = 0

    def upcoming(self) -> str:
        """Skip white space and return the next character; "" at the end."""
        while True:
            while self.text[self.at : self.at + 1] in WHITE:
                self.at += 1
            if self.at < len(self.text) or not self._read_more():
                return self.text[self.at : self.at + 1]

    def require(self, character: str, message: str) -> None:
        """Raise a UserError unless this character comes next after white space."""
        if self.upcoming() != character:
            raise self.error(json.JSONDecodeError(message, self.text, self.at))

    def value(self) -> Json | UserError:
        """Parse the next value; return an error if it is valid but not strict JSON, raise it if it
        is invalid.

        A number is complete only when another character follows it.
        """
        while True:
            try:
                value, end = DECODER.raw_decode(self.text, self.at)
            except (ValueError, RecursionError) as error:
                if (lenient_end := self._lenient_end(error)) is not None:
                    not_strict = self.error(error)
                    self.at = lenient_end
                    return not_strict
                if len(self.text) - self.at > LONGEST_LINE or not self._read_more():
                    raise self.error(error) from error
            else:
                after = self.text[end : end + 1]
                if (
                    type(value) not in (int, float)
                    or (after and after in ",]} \t\n\r")
                    or not self._read_more()
                ):
                    self.at = end
                    return value

    def error(self, error: Exception) -> UserError:
        """Return an error with its place in the file."""
        if not isinstance(error, json.JSONDecodeError):
            line = self.lines + self.text.count("\n", 0, self.at) + 1
            return _json_error(error, f"{self.path}:{line}")
        if len(self.text) - self.at > LONGEST_LINE:
            error.msg += f" (or a record is longer than {LONGEST_LINE:,} characters)"
        return _json_error(error, str(self.path), self.lines, self.characters)

    def _lenient_end(self, error: Exception) -> int | None:
        """Return the end of a value that is valid but not strict JSON."""
        if isinstance(error, json.JSONDecodeError):
            return None
        with suppress(ValueError, RecursionError):
            return LENIENT.raw_decode(self.text, self.at)[1]
        return None

    def _read_more(self) -> bool:
        """Drop the text before `at` and at least double the rest; return False at the end of the
        file.
        """
        read = self.text[: self.at]
        rest = self.text[self.at :]
        more: list[str] = []
        size = 0
        for chunk in self.chunks:
            more.append(chunk)
            size += len(chunk)
            if size >= len(rest):
                break
        if not more:
            return False
        self.characters = (
            len(read) - 1 - read.rfind("\n") + (0 if "\n" in read else self.characters)
        )
        self.lines += read.count("\n")
        self.text = "".join([rest, *more])
        self.at = 0
        return True


def _text_chunks(path: Path) -> Iterator[str]:
    """Decode a file in non-empty chunks, without its byte order mark."""
    decoder = getincrementaldecoder("utf-8")()
    read = 0
    for number, raw in enumerate(chain(read_chunks(path), [b""])):
        chunk = raw if number else raw.removeprefix(BYTE_ORDER_MARK)
        pending = len(decoder.getstate()[0])
        try:
            text = decoder.decode(chunk, final=not chunk and (number > 0 or not raw))
        except UnicodeDecodeError as error:
            byte = read - pending + error.start + 1
            raise UserError(
                f"{path}: byte {byte} is not UTF-8; convert the file to UTF-8"
            ) from error
        read += len(chunk)
        if text:
            yield text


def parse_json(text: str, place: str) -> Json:
    """Parse strict JSON: NaN, infinities, repeated keys, huge numbers and too deep nesting are
    errors.

    Raises:
        UserError: with the place.
    """
    try:
        return DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise _json_error(error, place) from error


def _json_error(error: Exception, place: str, lines: int = 0, characters: int = 0) -> UserError:
    """Return the error for text that follows `lines` lines, and `characters` characters of its
    first line.
    """
    if not isinstance(error, json.JSONDecodeError):
        return UserError(f"{place}: not JSON that can be read: {error}")
    line = lines + error.lineno
    column = error.colno + (characters if error.lineno == 1 else 0)
    where = f"line {line}, " if line > 1 else ""
    return UserError(f"{place}: not JSON at {where}character {column}: {error.msg}")


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite_float(number: str) -> float:
    value = float(number)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{number} is too large a number")
    return value


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        (key, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise _repeated_key(key)
    return fields


def _repeated_key(key: str) -> ValueError:
    return ValueError(f"the key {key!r} is repeated")


DECODER = json.JSONDecoder(
    parse_constant=_reject_constant, parse_float=_finite_float, object_pairs_hook=_unique_keys
)
LENIENT = json.JSONDecoder()
