"""Turn records into dialogues; a record that cannot be read becomes `Malformed`, with its file and
line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar, cast

from dialog.data.corpora.parsing.unicode_checks import check_texts
from dialog.data.dialogue import Dialogue, Malformed, with_warning
from dialog.errors import UserError

T = TypeVar("T")
R = TypeVar("R")

MANY_TURNS = 1000
"""A dialogue with more turns gets a warning."""
LONGEST_MESSAGE = 400
"""Longer messages lose their middle: they may quote a record of megabytes."""


def records(
    items: Iterable[tuple[str, T]], parse: Callable[[T, str], R | None]
) -> Iterator[R | Malformed]:
    """Yield `parse(item, place)` for each (place, item), in order; None is skipped.

    An item becomes `Malformed` if `parse` raises UserError, lacks a key or meets a wrong type, or
    if a text, speaker, id, author or warning of the dialogue is not Unicode text. More than
    `MANY_TURNS` turns are a warning.
    """
    for place, item in items:
        try:
            record = parse(item, place)
            if isinstance(record, Dialogue):
                check_texts(record)
                if len(record.turns) > MANY_TURNS:
                    message = (
                        f"{place}: a dialogue of {len(record.turns):,} turns; check how its file"
                        " marks dialogues"
                    )
                    record = cast("R", with_warning(record, message))
        except UserError as error:
            yield Malformed(shortened(str(error)))
        except (
            AttributeError,
            IndexError,
            KeyError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            reason = f"not in this corpus's format ({type(error).__name__}: {error})"
            yield Malformed(shortened(f"{place}: {reason}; correct or remove it"))
        else:
            if record is not None:
                yield record


def record_id(value: object, place: str) -> str:
    """Return the id of a record, given as a string or an integer.

    Raises:
        UserError: with the place; the id is empty or of another type.
    """
    if not isinstance(value, str | int) or isinstance(value, bool) or value == "":
        problem = "is empty" if value == "" else f"is {type(value).__name__}"
        raise UserError(f'{place}: "id" {problem}; write it in quotes, or as an integer')
    return str(value)


def shortened(message: str) -> str:
    """Keep the first and the last `LONGEST_MESSAGE / 2` characters: the place and the fix."""
    half = LONGEST_MESSAGE // 2
    return message if len(message) <= LONGEST_MESSAGE else f"{message[:half]} ... {message[-half:]}"
