"""Read a file that is one JSON object or array of dialogues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from string import digits

from dialog.data.corpora.parsing.lines import byte_lines
from dialog.data.corpora.parsing.records import records
from dialog.data.dialogue import Dialogue, Entry, with_warning
from dialog.data.reading.files import stem
from dialog.data.reading.json_text import Json, json_members, no_members_error
from dialog.errors import UserError


def is_json_array(path: Path) -> bool:
    """Return whether a file NAME.json holds a JSON array."""
    return ".json" in path.suffixes and next(byte_lines(path))[1].lstrip().startswith(b"[")


def member(fields: Json, path: str, default: Json = None) -> Json:
    """Return the value of a key, or of a path of keys such as `payload.messages`."""
    if not isinstance(fields, dict):
        return default
    if path in fields:
        return fields[path]
    key, dot, rest = path.partition(".")
    return member(fields.get(key), rest, default) if dot else default


def json_files_records(
    paths: Iterable[Path], parse: Callable[[str, Json, str], Dialogue | None]
) -> Iterator[Entry]:
    """Yield `json_records` of each file; the first dialogue after a gap in the files' numbers gets
    a warning.

    `data_00.json` and `data_02.json` have a gap.
    """
    last = ""
    for path in paths:
        name = stem(path)
        warning = (
            f"no file between {last} and {name}; download the corpus again"
            if _is_gap(last, name)
            else ""
        )
        for entry in json_records(path, parse):
            if warning and isinstance(entry, Dialogue):
                yield with_warning(entry, warning)
                warning = ""
            else:
                yield entry
        last = name


def _is_gap(name: str, following: str) -> bool:
    """Return whether two names are equal but for a last number, and the numbers differ by more than
    1.
    """
    start = following.rstrip(digits)
    numbers = name[len(start) :], following[len(start) :]
    return (
        name.startswith(start)
        and all(map(str.isdecimal, numbers))
        and int(numbers[1]) - int(numbers[0]) > 1
    )


def json_records(path: Path, parse: Callable[[str, Json, str], Dialogue | None]) -> Iterator[Entry]:
    """Yield `records` of `parse(key, value, place)` for each member; an array's keys are "1", "2",
    ...

    Raises:
        UserError: as `json_members`, or the file has no members.
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

    items = ((f"{path}: record {key}", (key, value)) for key, value in chain([first], members))
    yield from records(items, parse_member)
