"""What the doctor finds, as text and numbers that a terminal, a page and JSON can show."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from dialog.data.dialogue import Dialogue
from dialog.report.measures import count, percent

State = Literal["good", "look", "bad"]
"""Nothing to do; worth a look; harms a model or a measurement."""


class Table(NamedTuple):
    """Rows of text under a heading; the first cell of a row is its name."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Bars(NamedTuple):
    """A chart of bars: (label, size, what is written beside it)."""

    caption: str
    bars: tuple[tuple[str, float, str], ...]


class Quoted(NamedTuple):
    """Lines from the corpus, each with who or what it is, to show what is meant."""

    caption: str
    lines: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Finding:
    """One section of an inspection.

    Args:
        title: What was looked at.
        state: How bad it is.
        headline: What was found, in a few words.
        summary: What was found, in a sentence or two.
        advice: What to do, where there is something.
        shown: Tables, charts and examples, in order.
        data: All of it for JSON.
    """

    title: str
    state: State
    headline: str
    summary: str
    advice: str = ""
    shown: tuple[Table | Bars | Quoted, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


Quote = Callable[[str, Collection[int]], dict[int, Dialogue]]
"""Reads dialogues of a split again, by their numbers: the first ones are the quickest."""


class Section(Protocol):
    """Sees every dialogue once, without its empty turns: all of validation, then of test, then of train."""

    def see(self, split: str, dialogue: Dialogue) -> None:
        """Take in a dialogue."""

    def finding(self, quote: Quote) -> Finding:
        """What was found, after all dialogues."""


def share(part: float, whole: float) -> str:
    """A part of a whole as 281 (28.1 %)."""
    if not whole:
        return count(part)
    return f"{count(part)} ({rate(part, whole)})"


def rate(part: float, whole: float) -> str:
    """A part of a whole as 28.1 %; what is more than nothing is not shown as nothing."""
    return "< 0.1 %" if 0 < part < 0.0005 * whole else percent(part / max(whole, 1))


def place(dialogue: Dialogue) -> str:
    """Where a dialogue comes from: its id, and the file's name and line where its corpus says them."""
    return f"{dialogue.id} ({dialogue.place.rpartition('/')[2]})" if dialogue.place else dialogue.id
