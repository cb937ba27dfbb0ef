"""Findings of an inspection, as text and numbers for a terminal, a page and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from dialog.data.dialogue import SPLITS, Dialogue
from dialog.report.formats.numbers import count, percent

EVALUATED = ("validation", "test")
"""Splits that the training split is compared with."""

WORST_FIRST = ("test", "validation")
"""Splits of a headline about the worst one; of equal ones, test."""

Severity = Literal["good", "look", "bad"]
"""No action needed; worth a look; harms a model or its evaluation."""


class Table(NamedTuple):
    """Rows of text; the first cell of a row is its label."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class BarChart(NamedTuple):
    """Horizontal bars: (label, size, note beside the bar)."""

    caption: str
    bars: tuple[tuple[str, float, str], ...]


class Quotation(NamedTuple):
    """Lines of the corpus: (speaker, id or place; text)."""

    caption: str
    lines: tuple[tuple[str, str], ...]


Detail = Table | BarChart | Quotation


@dataclass(frozen=True)
class Finding:
    """Result of one section of an inspection.

    Args:
        title: Subject of the section.
        severity: Written as `state` in JSON.
        headline: Result in a few words.
        summary: Result in a sentence or two.
        advice: Remedy, empty if none is needed.
        details: Tables, charts and quotations, in order.
        data: All figures, for JSON.
    """

    title: str
    severity: Severity
    headline: str
    summary: str
    advice: str = ""
    details: tuple[Detail, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


ReadDialogues = Callable[[str, Collection[int]], dict[int, Dialogue]]
"""Reads dialogues of a split again, by number; it stops at the last one, so early numbers cost
least.
"""


class Section(Protocol):
    """One check of an inspection; it receives every usable dialogue once, of validation, then test,
    then train.
    """

    def add(self, split: str, dialogue: Dialogue) -> None:
        """Add a dialogue, without its empty turns."""

    def finding(self, read_dialogues: ReadDialogues) -> Finding:
        """Return the result, after the last dialogue."""


def severity(*, bad: object, look: object = False) -> Severity:
    """Return the worst severity whose condition is true."""
    if bad:
        return "bad"
    return "look" if look else "good"


def by_split(caption: str, labels: Mapping[str, str], cell: Callable[[str, str], str]) -> Table:
    """Return a table with a row per key of `labels` and a column per split: `cell(key, split)`."""
    rows = [(label, *(cell(key, split) for split in SPLITS)) for key, label in labels.items()]
    return Table(caption, ("", *SPLITS), tuple(rows))


def filled(*details: Detail) -> tuple[Detail, ...]:
    """Leave out tables without rows, charts without bars and quotations without lines."""
    return tuple(detail for detail in details if detail[-1])


def part_of(part: float, whole: float) -> str:
    """Format a part of a whole: 281 (28.1 %)."""
    return f"{count(part)} ({percent_of(part, whole)})" if whole else count(part)


def percent_of(part: float, whole: float) -> str:
    """Format a fraction: 28.1 %; a small part above 0 is < 0.1 %."""
    return "< 0.1 %" if 0 < part < 0.0005 * whole else percent(part / max(whole, 1))


def worst_split(parts: Mapping[str, tuple[float, float]]) -> str:
    """Return the split with the largest (part, whole) fraction; the first of equal ones."""
    return max(parts, key=lambda split: parts[split][0] / max(parts[split][1], 1))


def location(dialogue: Dialogue) -> str:
    """Return the id of a dialogue, with the file name and line if the corpus gives them."""
    return f"{dialogue.id} ({dialogue.place.rpartition('/')[2]})" if dialogue.place else dialogue.id


PERCENTS = (50, 90, 95, 99, 100)
PERCENTILE_LABELS = tuple(f"p{percent}" if percent < 100 else "max" for percent in PERCENTS)


class SizeDistribution:
    """The distribution of sizes: how often each occurs. Memory grows with the distinct sizes."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def add(self, sizes: Iterable[int]) -> None:
        """Count sizes."""
        self.counts.update(sizes)

    def __len__(self) -> int:
        return self.counts.total()

    @property
    def longest(self) -> int:
        """The largest size, 0 without sizes."""
        return max(self.counts, default=0)

    @property
    def mean(self) -> float:
        """The mean size, 0 without sizes."""
        return sum(size * number for size, number in self.counts.items()) / max(len(self), 1)

    def above(self, limit: int) -> int:
        """Return the number of sizes above a limit."""
        return sum(number for size, number in self.counts.items() if size > limit)

    def percentiles(self) -> list[int]:
        """For each p of `PERCENTS`, return the smallest size that at least p % do not exceed; 0
        without sizes.
        """
        if not self.counts:
            return [0] * len(PERCENTS)
        sizes = sorted(self.counts)
        reached = 100 * np.cumsum([self.counts[size] for size in sizes])
        places = np.searchsorted(reached, np.array(PERCENTS) * len(self))
        return [sizes[place] for place in places.tolist()]
