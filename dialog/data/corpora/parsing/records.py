"""Turn records into dialogues; a record that cannot be read becomes `Malformed`, with its file and line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from dialog.data.corpora.parsing.unicode_checks import check_texts
from dialog.data.dialogue import Dialogue, Malformed
from dialog.errors import UserError

T = TypeVar("T")
R = TypeVar("R")

LONGEST_MESSAGE = 400
"""Longer messages lose their middle: they may quote a record of megabytes."""


def records(items: Iterable[tuple[str, T]], parse: Callable[[T, str], R | None]) -> Iterator[R | Malformed]:
    """Yield `parse(item, place)` for each (place, item), in order; None is skipped.

    An item becomes `Malformed` if `parse` raises UserError, lacks a key or meets a wrong type, or if a text, speaker,
    id, author or warning of the dialogue is not Unicode text.
    """
    for place, item in items:
        try:
            record = parse(item, place)
            if isinstance(record, Dialogue):
                check_texts(record)
        except UserError as error:
            yield Malformed(shortened(str(error)))
        except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
            reason = f"not in this corpus's format ({type(error).__name__}: {error})"
            yield Malformed(shortened(f"{place}: {reason}; correct or remove it"))
        else:
            if record is not None:
                yield record


def shortened(message: str) -> str:
    """Keep the first and the last `LONGEST_MESSAGE / 2` characters: the place and the fix."""
    half = LONGEST_MESSAGE // 2
    return message if len(message) <= LONGEST_MESSAGE else f"{message[:half]} ... {message[-half:]}"
