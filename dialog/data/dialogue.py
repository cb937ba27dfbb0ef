"""Text types without tensors: turns, dialogues, and the examples that models learn from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

SPLITS = ("train", "validation", "test")
WARNING = "warning"
"""Key of `Dialogue.meta` for a corpus reader's warning about a dialogue that is odd but readable.
"""


class Copy(NamedTuple):
    """Characters [start:end] of a turn repeat those of turn `turn` of its dialogue from character
    `source` on.
    """

    start: int
    end: int
    turn: int
    source: int


@dataclass(frozen=True, slots=True)
class Turn:
    """One utterance of a speaker; `copies` lists known repetitions of earlier turns.

    A turn with `copies`, or that `is_answer`, is the only right response to the turns before it.
    """

    speaker: str
    text: str
    copies: tuple[Copy, ...] = ()
    is_answer: bool = False


@dataclass(frozen=True, slots=True)
class Dialogue:
    """Turns in order; `id` is unique within a split.

    `facts` are background such as a persona or a document, known before the first turn. A fact is
    known to the speaker that it names, or to everybody if the name is "". `meta["author"]` names
    the one person who wrote the dialogue, if the corpus records it; all dialogues of an author go
    to one split. `place` is the file and line of the record.
    """

    id: str
    turns: tuple[Turn, ...]
    meta: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    facts: tuple[Turn, ...] = ()
    place: str = field(default="", compare=False)


def with_warning(dialogue: Dialogue, warning: str) -> Dialogue:
    """Return the dialogue with one more warning in its meta."""
    warnings = [str(dialogue.meta[WARNING])] if WARNING in dialogue.meta else []
    return replace(dialogue, meta={**dialogue.meta, WARNING: "; ".join([*warnings, warning])})


class Malformed(NamedTuple):
    """A record that is not a dialogue; the message states the error, its place (file:line) and the
    fix.
    """

    message: str


Entry = Dialogue | Malformed
"""One record of a corpus. Malformed records are yielded too, so that they can be counted."""


@dataclass(frozen=True, slots=True)
class Example:
    """A response, the turns directly before it (its context), and the facts that its speaker knows.

    `first` is the index of `context[0]` in the dialogue, so `Copy.turn - first` is an index of
    `context`; a negative one points to a turn before the context.
    """

    id: str
    dialogue_id: str
    context: tuple[Turn, ...]
    response: Turn
    first: int
    facts: tuple[Turn, ...] = ()
