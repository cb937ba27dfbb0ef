"""From the records of a file to dialogues: what is none becomes a `Malformed` with its file and line."""

from __future__ import annotations

import csv
import hashlib
import json
from codecs import getincrementaldecoder
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

from dialog.data.dialogue import SPLITS, WARNING, Dialogue, Entry, Malformed
from dialog.data.files import COMPRESSED, LONGEST_LINE, find_file, pieces, raw_lines, require_file, sha256
from dialog.errors import UserError

T = TypeVar("T")
R = TypeVar("R")
Json = Any
"""What a piece of JSON is in Python; `records` turns what a reader expects wrongly of it into a `Malformed`."""

Row = dict[str, str] | UserError
"""The cells of a row by their columns, or what is wrong with it."""

Block = list[tuple[str, T]]
"""Consecutive items of a file, each with its place before it, that are one dialogue."""

MOST_TURNS = 100_000
MOST_CHARACTERS = LONGEST_LINE
"""A block of more items, or longer ones, is malformed: what should part them is not there; they would fill the memory.
"""

LONGEST_ROW = 2**17
"""So many characters a row takes of the lines after its first: whatever should close its quotes is not there."""

SWALLOWED = 3
"""So many rows that quotes take in are no text of several lines: one of the quotes is astray."""

LONGEST_MESSAGE = 400
"""A longer one about a record loses its middle; it would hold what the record does, which may be megabytes."""

TELLS = ("system", "developer")
TOOLS = ("tool", "function")
"""Roles of messages that are no turns: what is known before the first, and what a tool gives."""
CALLS = ("tool_calls", "function_call", "audio", "refusal")
"""What an assistant may do beside saying something; a message that does is not text alone."""

WHITE = frozenset(" \t\n\r")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
TENTHS = {"train": range(8), "validation": range(8, 9), "test": range(9, 10)}


# ------------------------------------------------------------------ records


def records(items: Iterable[tuple[str, T]], parse: Callable[[T, str], R | None]) -> Iterator[R | Malformed]:
    """`parse(item, place)` of each (place, item), in order: a dialogue or what one is made of, None for neither.

    What `parse` cannot read becomes `Malformed`: a UserError with its own words, an item that lacks a key or has
    another type as such. Texts, speakers, ids, authors and warnings that are no Unicode text are malformed too.
    """
    for place, item in items:
        try:
            found = parse(item, place)
            if isinstance(found, Dialogue):
                _require_text(found)
        except UserError as error:
            yield Malformed(_capped(str(error)))
        except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
            why = f"not as this corpus has it ({type(error).__name__}: {error})"
            yield Malformed(_capped(f"{place}: {why}; mend or remove it"))
        else:
            if found is not None:
                yield found


def _capped(message: str) -> str:
    """A message of bounded length, whatever the record holds: the place it begins with and the hint at its end stay."""
    half = LONGEST_MESSAGE // 2
    return message if len(message) <= LONGEST_MESSAGE else f"{message[:half]} ... {message[-half:]}"


def line_records(path: Path, parse: Callable[[str, str], R | None], encoding: str = "utf-8") -> Iterator[R | Malformed]:
    """`records` of the lines of a file, without their ends; a line of other bytes than `encoding` has is malformed."""
    return records(numbered(path), lambda raw, place: parse(decoded(raw, place, encoding), place))


def block_records(
    items: Iterable[tuple[str, T]],
    begins: Callable[[Block[T], T], bool],
    parse: Callable[[Block[T], str], Dialogue | None],
) -> Iterator[Entry]:
    """`records` of blocks of consecutive (place, item), under the place of the first.

    `begins(block, item)` says whether the item is the first of the next block, given the block before it, whose last
    item is the one before. A block of more than `MOST_TURNS` items or `MOST_CHARACTERS` is malformed, and not kept.
    """

    def bounded(found: tuple[Block[T], int], place: str) -> Dialogue | None:
        block, size = found
        if len(block) > MOST_TURNS:
            raise UserError(f"{place}: a dialogue of more than {MOST_TURNS:,} lines; is this the corpus's format?")
        if size > MOST_CHARACTERS:
            raise UserError(
                f"{place}: a dialogue of more than {MOST_CHARACTERS:,} characters; is this the corpus's format?"
            )
        return parse(block, place)

    return records(_blocks(items, begins), bounded)


def _blocks(
    items: Iterable[tuple[str, T]], begins: Callable[[Block[T], T], bool]
) -> Iterator[tuple[str, tuple[Block[T], int]]]:
    """The place of each block, the block, and its characters; of what makes it too long only the last item is kept."""
    block: Block[T] = []
    size = 0
    for place, item in items:
        if block and begins(block, item):
            yield block[0][0], (block, size)
            block, size = [], 0
        del block[MOST_TURNS:]
        if size > MOST_CHARACTERS:
            block[-1] = block[0]
        block.append((place, item))
        size += _characters(item)
    if block:
        yield block[0][0], (block, size)


def _characters(item: object) -> int:
    """Of a line its own, of a row those of its cells."""
    if isinstance(item, dict):
        return sum(map(len, item.values()))
    return len(item if isinstance(item, str | bytes) else str(item))


def numbered_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[str, str]]:
    """(file:line, line without its end) of a file whose records are longer than a line.

    Raises:
        UserError: a byte that the encoding does not have, with file:line, or a file without any character.
    """
    return ((place, decoded(raw, place, encoding)) for place, raw in numbered(path))


def decoded(raw: bytes, place: str, encoding: str = "utf-8") -> str:
    """A line as text, without its LF or CRLF; other characters that Unicode counts as line ends are text.

    An encoding with `:replace` after it gives U+FFFD for each byte that it does not have.
    """
    name, _, errors = encoding.partition(":")
    try:
        line = raw.decode(name, errors or "strict")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{place}: byte {error.start + 1} of the line is not {name.upper()}; convert the file to UTF-8"
        ) from error
    except (LookupError, ValueError) as error:
        raise UserError(f"{place}: there is no encoding {encoding!r} of lines ({error})") from error
    return line.removesuffix("\n").removesuffix("\r")


def numbered(path: Path) -> Iterator[tuple[str, bytes]]:
    """(file:line, line with its end) of a file that has at least one, without a byte order mark."""
    number = 0
    for number, raw in enumerate(raw_lines(path), start=1):
        yield f"{path}:{number}", raw.removeprefix(BYTE_ORDER_MARK) if number == 1 else raw
    if number == 0:
        raise UserError(f"{path} is empty; it should hold dialogues")


def _require_text(dialogue: Dialogue) -> None:
    said = (*dialogue.turns, *dialogue.facts)
    told = [text for key in ("author", WARNING) if isinstance(text := dialogue.meta.get(key), str)]
    texts = [dialogue.id, *[turn.speaker for turn in said], *[turn.text for turn in said], *told]
    try:
        "".join(texts).encode()
    except (TypeError, UnicodeEncodeError):
        for text in texts:
            _refuse_other(text, dialogue.place)


def _refuse_other(text: object, place: str) -> None:
    """Raise a UserError unless this is a text of whole characters."""
    if not isinstance(text, str):
        raise UserError(f"{place}: {text!r} is no text; write it in quotes")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(text[error.start]):04x}"
        raise UserError(f"{place}: holds half a character ({half}); write both halves") from error


# ------------------------------------------------------------------ tables


def table(
    path: Path, columns: Iterable[str] = (), *, delimiter: str = ",", quotes: bool = True, encoding: str = "utf-8"
) -> Iterator[tuple[str, Row]]:
    """(file:line where it begins, row) of each row of a table but the first, which names the columns.

    Cells are separated as Python's `csv` reads them: in quotes they may hold the delimiter and line ends. Blank rows
    are skipped. A line is malformed whose quotes are not closed, or change the row's width, or take in lines of which
    most, and three at least, are rows by themselves, as it would be without them; the next line is read as a row.

    Raises:
        UserError: the first row cannot be read, or does not name each of `columns` once.
    """
    rows = _rows(path, delimiter, quotes, encoding)
    place, names = next(rows)
    if isinstance(names, UserError):
        raise names
    for column in columns:
        if names.count(column) != 1:
            count = "more than one" if column in names else "no"
            known = f"{count} column {column!r} among {', '.join(names)}"
            raise UserError(_capped(f"{place}: {known}; the first row should name it once (see data.corpus)"))
    for place, found in rows:
        if isinstance(found, UserError):
            yield place, found
        elif len(found) == len(names):
            yield place, dict(zip(names, found, strict=True))
        elif found:
            yield place, UserError(f"{place}: {len(found)} columns, but {len(names)} names in the first row; mend it")


def cells(row: Row) -> dict[str, str]:
    """The cells of a row that `table` gives, by their columns.

    Raises:
        UserError: it cannot be read.
    """
    if isinstance(row, UserError):
        raise row
    return row


def _rows(path: Path, delimiter: str, quotes: bool, encoding: str) -> Iterator[tuple[str, list[str] | UserError]]:
    csv.field_size_limit(2**31 - 1)  # a line is bounded, and so is what a row takes of those after it
    lines = (line + "\n" for _, line in numbered_lines(path, encoding))
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE

    def split(lines: Iterable[str], *, strict: bool = True) -> list[str]:
        return next(csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=strict))

    def alone(line: str) -> bool:
        try:
            return len(split([line])) == width
        except csv.Error:
            return False

    def swallows(first: str, inner: list[str]) -> bool:
        *_, last = opened = split([first], strict=False)
        rows = sum(map(alone, inner))
        return len(opened) + last.count(delimiter) == width and rows >= SWALLOWED and 2 * rows > len(inner)

    ahead: deque[str] = deque()
    number = width = 0
    while first := ahead.popleft() if ahead else next(lines, None):
        number += 1
        place = f"{path}:{number}"
        more: list[str] = []
        try:
            row = split(chain([first], _taken(ahead, lines, more)))
            width = width or len(row)
            if more and (len(row) != width or swallows(first, more[:-1])):
                raise csv.Error("a quote takes in lines that are no part of the row")
        except csv.Error as error:
            ahead.extendleft(reversed(more))
            yield place, UserError(f"{place}: {error}; mend the row, or its quotes")
        else:
            number += len(more)
            yield place, row


def _taken(ahead: deque[str], lines: Iterator[str], more: list[str]) -> Iterator[str]:
    """The lines that a row goes on with, from those ahead and then the file; `more` keeps them, up to `LONGEST_ROW`."""
    size = 0
    while size < LONGEST_ROW and (line := ahead.popleft() if ahead else next(lines, None)):
        size += len(line)
        more.append(line)
        yield line


# ------------------------------------------------------------------ JSON


def json_records(path: Path, parse: Callable[[str, Json, str], Dialogue | None]) -> Iterator[Entry]:
    """`records` of a file that is one JSON object or array: `parse(key, value, place)` of each of its members.

    The key of an array's member is its number, from 1.

    Raises:
        UserError: as `json_members`, or the file has none.
    """
    members = json_members(path)
    first = next(members, None)
    if first is None:
        raise _no_members(path)
    items = ((f"{path}: record {key}", (key, value)) for key, value in chain([first], members))
    yield from records(items, lambda item, place: parse(*item, place))


def json_members(path: Path) -> Iterator[tuple[str, Json]]:
    """(key, value) of each member of a file that is one JSON object or array, read as strictly as `parse_json` does.

    One member is in memory at a time. The key of an array's member is its number, from 1.

    Raises:
        UserError: with the file, when it is no JSON, another one, or a member is longer than 64 Mi characters.
    """
    text = _JsonText(path)
    opening = text.upcoming()
    if opening not in ("{", "["):
        text.value()
        raise _no_members(path)
    text.at += 1
    keys: set[str] = set()
    number = 0
    while number or text.upcoming() not in ("}", "]"):
        number += 1
        key = str(number)
        if opening == "{":
            text.require('"', "Expecting property name enclosed in double quotes")
            key = text.value()
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


def _no_members(path: Path) -> UserError:
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

    def value(self) -> Json:
        """The value that begins here; a number ends where something else begins."""
        while True:
            try:
                value, end = DECODER.raw_decode(self.text, self.at)
            except (ValueError, RecursionError) as error:
                if len(self.text) - self.at > LONGEST_LINE or not self._longer():
                    raise self.error(error) from error
            else:
                after = self.text[end : end + 1]
                if type(value) not in (int, float) or (after and after in ",]} \t\n\r") or not self._longer():
                    self.at = end
                    return value

    def error(self, error: Exception) -> UserError:
        """What is wrong here, with its place in the file."""
        if isinstance(error, json.JSONDecodeError) and len(self.text) - self.at > LONGEST_LINE:
            error.msg += f" (or a record is longer than {LONGEST_LINE:,} characters)"
        return _not_json(error, str(self.path), self.lines, self.characters)

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


# ------------------------------------------------------------------ messages


def tells(role: Json, where: str, *, first: bool) -> bool:
    """Whether a message, the first of all turns or not, is no turn but what is known before them.

    Raises:
        UserError: it is neither: such a one further on, or of a tool.
    """
    if role in TOOLS:
        raise misplaced(role, where, "which nobody says")
    if role in TELLS and not first:
        raise misplaced(role, where, "after the first turn")
    return role in TELLS


def refuse_calls(message: Mapping[str, Json], where: str) -> None:
    """Raise a UserError of a message that is more than what it says."""
    for key in CALLS:
        if message.get(key):
            raise UserError(f'{where} has "{key}"; only text can be learnt: take the dialogue out')


def misplaced(role: Json, where: str, why: str) -> UserError:
    """What to raise of a message whose role has no place in a dialogue."""
    return UserError(f"{where} is of role {role!r}, {why}; take it or the dialogue out")


# ------------------------------------------------------------------ files and splits


def digests(root: Path, files: Iterable[Path]) -> dict[str, str]:
    """The SHA-256 of each file, under its path below `root`."""
    return {file.relative_to(root).as_posix(): sha256(file) for file in sorted(set(files))}


def require_path(path: Path | None, corpus: str, holds: str) -> Path:
    """The path that a corpus was given.

    Raises:
        UserError: none was given.
    """
    if path is None:
        raise UserError(
            f"{corpus} needs {holds}: set data.path=DIR, or DIALOG_DATA to the folder that holds a folder {corpus}"
        )
    return Path(path)


@dataclass(frozen=True)
class SplitFiles:
    """A folder with a file a split, or one file that `share` splits; each may be compressed.

    Args:
        path: The folder or the file.
        suffixes: What the files' names in the folder end with, all with the same one of these.
        hint: What a file should hold, for whoever has none.
        names: What the splits are called in the folder.
    """

    path: Path
    suffixes: tuple[str, ...]
    hint: str
    names: tuple[str, ...] = SPLITS

    def entries(self, split: str, read: Callable[[Path], Iterator[Entry]]) -> Iterator[Entry]:
        """What `read` yields from the file of a split, or of its share of the one file.

        Raises:
            UserError: the file holds nothing but blank lines.
        """
        file = self._file(split)
        found = self._some(read(file), file)
        return found if self.path.is_dir() else share(found, split)

    def fingerprint(self) -> dict[str, str]:
        """Map the file or the files to their SHA-256."""
        root = self.path if self.path.is_dir() else self.path.parent
        return digests(root, map(self._file, SPLITS))

    def _some(self, entries: Iterator[Entry], file: Path) -> Iterator[Entry]:
        for first in entries:
            yield first
            yield from entries
            return
        raise UserError(f"{file} holds no dialogue; {self.hint}")

    def _file(self, split: str) -> Path:
        if not self.path.is_dir():
            require_file(self.path, self.hint)
            return self.path
        name = self.names[SPLITS.index(split)]
        there = [suffix for suffix in self.suffixes if self._holds(name + suffix)] or [self.suffixes[0]]
        if len(there) > 1:
            raise UserError(f"{self.path} holds {name + there[0]} and {name + there[1]}; keep the one that counts")
        return find_file(self.path, name + there[0], self.hint)

    def _holds(self, name: str) -> bool:
        return any((self.path / (name + suffix)).exists() for suffix in ("", *COMPRESSED))


def share(entries: Iterable[Entry], split: str) -> Iterator[Entry]:
    """The part of a corpus without splits that falls to `split`: eight tenths to train, one each to the others.

    The rule: SHA-256 of the author (`meta["author"]`, unless null or empty), else of the turns' texts, joined by line
    feeds, read as one integer, modulo 10; 0 to 7 is train, 8 validation, 9 test. Dialogues of one author, or of the
    same words, are in one split, and adding some moves none. What is malformed is counted with train.
    """
    for entry in entries:
        if isinstance(entry, Malformed):
            if split == "train":
                yield entry
        elif _tenth(entry) in TENTHS[split]:
            yield entry


def listed(
    entries: Iterable[Entry], split: str, lists: Mapping[str, str], others: str | None = None
) -> Iterator[Entry]:
    """The part of a corpus that falls to `split` by lists, which map ids to splits.

    What they do not name falls to the split `others`, or is split by `share`. What is malformed is counted with train.
    """
    for entry in entries:
        place = lists.get(entry.id, others) if isinstance(entry, Dialogue) else "train"
        if place is None:
            yield from share([entry], split)
        elif place == split:
            yield entry


def _tenth(dialogue: Dialogue) -> int:
    author = dialogue.meta.get("author")
    content = "\n".join(turn.text for turn in dialogue.turns) if author in (None, "") else str(author)
    return int(hashlib.sha256(content.encode()).hexdigest(), 16) % 10
