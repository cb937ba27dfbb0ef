"""Dialogues as frozen text, without tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

SPLITS = ("train", "validation", "test")
WARNING = "warning"
"""The key of `Dialogue.meta` under which a corpus says what is odd about a dialogue that it reads all the same."""


class Copy(NamedTuple):
    """Characters [start:end] of a turn repeat those of turn `turn` of its dialogue from character `source` on."""

    start: int
    end: int
    turn: int
    source: int


@dataclass(frozen=True, slots=True)
class Turn:
    """What one speaker says before another does, with what of it is known to repeat earlier turns."""

    speaker: str
    text: str
    copies: tuple[Copy, ...] = ()


@dataclass(frozen=True, slots=True)
class Dialogue:
    """Turns in the order in which they were said; `id` is unique within a split.

    `facts` are known before the first turn, to the speaker of each, or to everybody where that is "": a persona, a text
    that is talked about. `meta["author"]`, where a corpus knows one person who wrote it all, keeps the dialogues of an
    author in one split. `place` is the file and line that it comes from.
    """

    id: str
    turns: tuple[Turn, ...]
    meta: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    facts: tuple[Turn, ...] = ()
    place: str = field(default="", compare=False)


class Malformed(NamedTuple):
    """A record of a corpus that is no dialogue: the line that says what, where (file:line) and how to mend it."""

    message: str


Entry = Dialogue | Malformed
"""What a corpus yields for each of its records, so that those that are none can be counted too."""


@dataclass(frozen=True, slots=True)
class Example:
    """A response, the turns just before it, and the facts that the one who responds knows.

    `first` is the index of `context[0]` in the dialogue, so `Copy.turn - first` is an index of `context`;
    below 0 it lies outside the window.
    """

    id: str
    dialogue_id: str
    context: tuple[Turn, ...]
    response: Turn
    first: int
    facts: tuple[Turn, ...] = ()
