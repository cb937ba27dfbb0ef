"""From the records of a file to dialogues: what is none becomes a `Malformed` with its file and line."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypeVar

from dialog.data.dialogue import SPLITS, WARNING, Dialogue, Entry, Malformed
from dialog.data.reading.files import (
    BYTE_ORDER_MARK,
    COMPRESSED,
    LONGEST_LINE,
    find_file,
    raw_lines,
    require_file,
    sha256,
)
from dialog.data.reading.json_text import Json, json_members, no_members_error
from dialog.errors import UserError

T = TypeVar("T")
R = TypeVar("R")

Block = list[tuple[str, T]]
"""Consecutive items of a file, each with its place before it, that are one dialogue."""

MOST_TURNS = 100_000
MOST_CHARACTERS = LONGEST_LINE
"""A block of more items, or longer ones, is malformed: what should part them is not there; they would fill the memory.
"""

LONGEST_MESSAGE = 400
"""A longer one about a record loses its middle; it would hold what the record does, which may be megabytes."""

TELLS = ("system", "developer")
TOOLS = ("tool", "function")
"""Roles of messages that are no turns: what is known before the first, and what a tool gives."""
CALLS = ("tool_calls", "function_call", "audio", "refusal")
"""What an assistant may do beside saying something; a message that does is not text alone."""

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
            yield Malformed(capped(str(error)))
        except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
            why = f"not as this corpus has it ({type(error).__name__}: {error})"
            yield Malformed(capped(f"{place}: {why}; mend or remove it"))
        else:
            if found is not None:
                yield found


def capped(message: str) -> str:
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


def json_records(path: Path, parse: Callable[[str, Json, str], Dialogue | None]) -> Iterator[Entry]:
    """`records` of a file that is one JSON object or array: `parse(key, value, place)` of each of its members.

    The key of an array's member is its number, from 1.

    Raises:
        UserError: as `json_members`, or the file has none.
    """
    members = json_members(path)
    first = next(members, None)
    if first is None:
        raise no_members_error(path)

    def parse_member(member: tuple[str, Json | UserError], place: str) -> Dialogue | None:
        key, value = member
        if isinstance(value, UserError):
            raise value
        return parse(key, value, place)

    yield from records(
        ((f"{path}: record {key}", (key, value)) for key, value in chain([first], members)), parse_member
    )


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
