"""Dialogues as frozen text, without tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

SPLITS = ("train", "validation", "test")


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

    `facts` are lines that are known before the first turn; the speaker of a fact is who knows it, "" is everybody.
    """

    id: str
    turns: tuple[Turn, ...]
    meta: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    facts: tuple[Turn, ...] = ()


@dataclass(frozen=True, slots=True)
class Example:
    """A response and the turns just before it.

    `first` is the index of `context[0]` in the dialogue, so `Copy.turn - first` is an index of `context`;
    below 0 it lies outside the window. `facts` are those that the responder knows, in order.
    """

    id: str
    dialogue_id: str
    context: tuple[Turn, ...]
    response: Turn
    first: int
    facts: tuple[Turn, ...] = ()
