"""JSON of files, read strictly: no key twice, no number that is not finite, and of a long file a member at a time."""

from __future__ import annotations

import json
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from dialog.data.reading.files import BYTE_ORDER_MARK, LONGEST_LINE, pieces
from dialog.errors import UserError

Json = Any
"""What a piece of JSON is in Python."""

WHITE = frozenset(" \t\n\r")


def json_members(path: Path) -> Iterator[tuple[str, Json | UserError]]:
    """(key, value) of each member of a file that is one JSON object or array, read as strictly as `parse_json` does.

    One member is in memory at a time. The key of an array's member is its number, from 1. The value of one that is
    JSON, but not as strict, is what to raise.

    Raises:
        UserError: with the file, when it is no JSON, another one, or a member is longer than 64 Mi characters.
    """
    text = _JsonText(path)
    opening = text.upcoming()
    if opening not in ("{", "["):
        text.value()
        raise no_members(path)
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
                raise text.error(_twice(key))
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


def no_members(path: Path) -> UserError:
    """What to raise of a file that is no object or array, or an empty one."""
    return UserError(f"{path} holds no dialogues; it should be a JSON object or array of them")


class _JsonText:
    """The text of a JSON file, as much of it as its next value needs.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pieces = _texts(path)
        self.text = ""
        self.at = 0
        """Where in the text what was not read yet begins."""
        self.lines = self.characters = 0
        """Lines before the text, and characters before it on its first line."""

    def upcoming(self) -> str:
        """The character after white space, "" at the end."""
        while True:
            while self.text[self.at : self.at + 1] in WHITE:
                self.at += 1
            if self.at < len(self.text) or not self._longer():
                return self.text[self.at : self.at + 1]

    def require(self, character: str, message: str) -> None:
        """Raise a UserError unless this character is the next after white space."""
        if self.upcoming() != character:
            raise self.error(json.JSONDecodeError(message, self.text, self.at))

    def value(self) -> Json | UserError:
        """The value that begins here, or what is wrong with it; a number ends where something else begins."""
        while True:
            try:
                value, end = DECODER.raw_decode(self.text, self.at)
            except (ValueError, RecursionError) as error:
                if (lenient := self._end(error)) is not None:
                    wrong, self.at = self.error(error), lenient
                    return wrong
                if len(self.text) - self.at > LONGEST_LINE or not self._longer():
                    raise self.error(error) from error
            else:
                after = self.text[end : end + 1]
                if type(value) not in (int, float) or (after and after in ",]} \t\n\r") or not self._longer():
                    self.at = end
                    return value

    def error(self, error: Exception) -> UserError:
        """What is wrong here, with its place in the file."""
        if not isinstance(error, json.JSONDecodeError):
            line = self.lines + self.text.count("\n", 0, self.at) + 1
            return _not_json(error, f"{self.path}:{line}")
        if len(self.text) - self.at > LONGEST_LINE:
            error.msg += f" (or a record is longer than {LONGEST_LINE:,} characters)"
        return _not_json(error, str(self.path), self.lines, self.characters)

    def _end(self, error: Exception) -> int | None:
        """Where a value ends that is JSON, if not as strict."""
        if isinstance(error, json.JSONDecodeError):
            return None
        with suppress(ValueError, RecursionError):
            return LENIENT.raw_decode(self.text, self.at)[1]
        return None

    def _longer(self) -> bool:
        """Twice as much text from here on, or a piece more; whether there was any."""
        read, rest = self.text[: self.at], self.text[self.at :]
        more: list[str] = []
        size = 0
        for piece in self.pieces:
            more.append(piece)
            size += len(piece)
            if size >= len(rest):
                break
        if not more:
            return False
        self.characters = len(read) - 1 - read.rfind("\n") + (0 if "\n" in read else self.characters)
        self.lines += read.count("\n")
        self.text, self.at = "".join([rest, *more]), 0
        return True


def _texts(path: Path) -> Iterator[str]:
    """The text of a file in pieces, none of them empty, without a byte order mark."""
    decoder = getincrementaldecoder("utf-8")()
    read = 0
    for number, raw in enumerate(chain(pieces(path), [b""])):
        piece = raw if number else raw.removeprefix(BYTE_ORDER_MARK)
        waiting = len(decoder.getstate()[0])
        try:
            text = decoder.decode(piece, final=not piece and (number > 0 or not raw))
        except UnicodeDecodeError as error:
            byte = read - waiting + error.start + 1
            raise UserError(f"{path}: byte {byte} is not UTF-8; convert the file to UTF-8") from error
        read += len(piece)
        if text:
            yield text


def parse_json(text: str, place: str) -> Json:
    """JSON without NaN, infinities, keys that come twice and numbers or nesting out of all proportion.

    Raises:
        UserError: with the place.
    """
    try:
        return DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise _not_json(error, place) from error


def _not_json(error: Exception, place: str, lines: int = 0, characters: int = 0) -> UserError:
    """What to raise of text that comes after so many lines, and characters of its first line."""
    if not isinstance(error, json.JSONDecodeError):
        return UserError(f"{place}: not JSON that can be read: {error}")
    line = lines + error.lineno
    column = error.colno + (characters if error.lineno == 1 else 0)
    where = f"line {line}, " if line > 1 else ""
    return UserError(f"{place}: not JSON at {where}character {column}: {error.msg}")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(number: str) -> float:
    value = float(number)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{number} is too large a number")
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        (key, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise _twice(key)
    return fields


def _twice(key: str) -> ValueError:
    return ValueError(f"the key {key!r} stands there twice")


DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_unique)
LENIENT = json.JSONDecoder()
