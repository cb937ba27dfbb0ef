"""Read a file that is one JSON object or array of dialogues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from dialog.data.corpora.parsing.records import records
from dialog.data.dialogue import Dialogue, Entry
from dialog.data.reading.json_text import Json, json_members, no_members_error
from dialog.errors import UserError


def json_records(path: Path, parse: Callable[[str, Json, str], Dialogue | None]) -> Iterator[Entry]:
    """Yield `records` of `parse(key, value, place)` for each member; an array's keys are "1", "2", ...

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
