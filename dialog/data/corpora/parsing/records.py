"""Turn records, or blocks of consecutive lines or rows, into dialogues.

A record that cannot be read becomes `Malformed`, with its file and line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import cycle
from typing import TypeVar, cast

from dialog.data.dialogue import WARNING, Dialogue, Entry, Malformed, Turn, with_warning
from dialog.data.reading.files import LONGEST_LINE
from dialog.errors import UserError

T = TypeVar("T")
R = TypeVar("R")

MANY_TURNS = 1000
"""A dialogue with more turns gets a warning."""
LONGEST_MESSAGE = 400
"""Longer messages lose their middle: they may quote a record of megabytes."""

Block = list[tuple[str, T]]
"""Consecutive (place, item) pairs of one dialogue."""

MOST_TURNS = 100_000
MOST_CHARACTERS = LONGEST_LINE
"""A block beyond either limit lacks its separators and is malformed; its items are not kept in
memory.
"""


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


def alternating(texts: Iterable[str], speakers: Iterable[str] = "AB") -> tuple[Turn, ...]:
    """Return turns whose speakers alternate."""
    return tuple(map(Turn, cycle(speakers), texts))


def shortened(message: str) -> str:
    """Keep the first and the last `LONGEST_MESSAGE / 2` characters: the place and the fix."""
    half = LONGEST_MESSAGE // 2
    return message if len(message) <= LONGEST_MESSAGE else f"{message[:half]} ... {message[-half:]}"


def check_texts(dialogue: Dialogue) -> None:
    """Raise UserError if the id is empty, or a text, speaker, id, author or warning no text or half
    a character.
    """
    if dialogue.id == "":
        raise UserError(
            f"{dialogue.place}: the id of this dialogue is empty; give each dialogue its own id"
        )
    turns = (*dialogue.turns, *dialogue.facts)
    meta = [text for key in ("author", WARNING) if isinstance(text := dialogue.meta.get(key), str)]
    texts = [dialogue.id, *[turn.speaker for turn in turns], *[turn.text for turn in turns], *meta]
    try:
        "".join(texts).encode()
    except (TypeError, UnicodeEncodeError):
        for text in texts:
            _check_text(text, dialogue.place)


def _check_text(text: object, place: str) -> None:
    if not isinstance(text, str):
        raise UserError(f"{place}: {text!r} is not text; write it in quotes")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        surrogate = f"\\u{ord(text[error.start]):04x}"
        raise UserError(
            f"{place}: holds half a character ({surrogate}); write both surrogates"
        ) from error


def block_records(
    items: Iterable[tuple[str, T]],
    begins: Callable[[Block[T], T], bool],
    parse: Callable[[Block[T], str], Dialogue | None],
) -> Iterator[Entry]:
    """Yield `records` of blocks, each under the place of its first item.

    `begins(block, item)` returns whether `item` starts a new block after `block`.
    """

    def parse_bounded(sized: tuple[Block[T], int], place: str) -> Dialogue | None:
        block, size = sized
        for count, limit, unit in (
            (len(block), MOST_TURNS, "lines"),
            (size, MOST_CHARACTERS, "characters"),
        ):
            if count > limit:
                raise UserError(
                    f"{place}: a dialogue of more than {limit:,} {unit}; check the corpus's format"
                )
        return parse(block, place)

    return records(_blocks(items, begins), parse_bounded)


def _blocks(
    items: Iterable[tuple[str, T]], begins: Callable[[Block[T], T], bool]
) -> Iterator[tuple[str, tuple[Block[T], int]]]:
    """Yield (place, (block, characters)); beyond the limits only the last item is kept, for
    `begins`.
    """
    block: Block[T] = []
    size = 0
    for place, item in items:
        if block and begins(block, item):
            yield block[0][0], (block, size)
            block = []
            size = 0
        del block[MOST_TURNS:]
        if size > MOST_CHARACTERS:
            block[-1] = block[0]
        block.append((place, item))
        size += _characters(item)
    if block:
        yield block[0][0], (block, size)


def _characters(item: object) -> int:
    """Return the length of a line, or the total length of a row's cells."""
    if isinstance(item, dict):
        return sum(map(len, item.values()))
    return len(item if isinstance(item, str | bytes) else str(item))
