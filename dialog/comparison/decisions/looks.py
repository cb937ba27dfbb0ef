"""Looks: every report on new seeds of a pair is a chance to decide, so the number of looks is
planned and the level is divided among them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from dialog.atomic import write_text
from dialog.comparison.decisions.family import NullHypothesis
from dialog.escaping import to_json
from dialog.json_files import parsed, read_json_lines
from dialog.report.formats.results import LookedAt, LookEntry

LOOKS = "looks.jsonl"
"""File of a comparison folder: a line for each look, only appended."""

Seeds = Mapping[str, Sequence[int | None]]
"""Seeds of the runs of each contender; None for a run without a known seed."""


@dataclass(frozen=True)
class Look:
    """A report on seeds of some pairs that no earlier report had.

    Attributes:
        date: Time of the report, ISO 8601.
        seeds: Seeds of all contenders.
        p_values: p-values before correction.
    """

    date: str
    seeds: Seeds
    p_values: Mapping[NullHypothesis, float] = field(default_factory=dict)

    @classmethod
    def now(cls, seeds: Seeds, p_values: Mapping[NullHypothesis, float]) -> Self:
        """Return the look of a report that is being written."""
        return cls(datetime.now(UTC).isoformat(timespec="seconds"), seeds, p_values)

    def seeds_of(self, pair: tuple[str, str]) -> list[list[int | None]]:
        """Return the seeds of both contenders."""
        return [sorted(self.seeds.get(name, ()), key=str) for name in pair]

    def scope(self, pair: tuple[str, str]) -> list[bool]:
        """Return which of two contenders have one run: another number is another hypothesis, about
        the architecture and not about that run.
        """
        return [len(seeds) == 1 for seeds in self.seeds_of(pair)]

    def restricted(self, pairs: Collection[tuple[str, str]]) -> Self:
        """Return the look at these pairs only."""
        kept = {test: p for test, p in self.p_values.items() if test.pair in pairs}
        return type(self)(self.date, self.seeds, kept)

    @classmethod
    def of(cls, entry: LookEntry) -> Self:
        """Return the look of a line of looks.jsonl."""
        tests = {NullHypothesis(one.a, one.b, one.metric, one.subset): one.p for one in entry.tests}
        return cls(entry.date, entry.seeds, tests)

    @property
    def entry(self) -> LookEntry:
        """The look as a line of looks.jsonl, and in results.json."""
        seeds = {name: tuple(seeds) for name, seeds in self.seeds.items()}
        tests = (LookedAt(*test, p) for test, p in self.p_values.items())
        return LookEntry(self.date, seeds, tuple(tests))


@dataclass(frozen=True)
class Spent:
    """p-values after the correction for looks.

    Attributes:
        p_values: By hypothesis.
        looks: All looks, the present one last if it is new.
        late: Pairs whose present seeds are beyond the planned looks: they decide nothing.
    """

    p_values: dict[NullHypothesis, float]
    looks: list[Look]
    late: set[tuple[str, str]]


def spend(present: Look, earlier: Sequence[Look], planned: int) -> Spent:
    """Return the p-value of each hypothesis over its first `planned` looks: min(1, planned times
    their smallest), which is valid for any dependence between looks.

    Seeds that an earlier report had are the same look. A later look changes no p-value. Reports on
    one run of a contender are no looks at its architecture, which is another hypothesis.
    """
    corrected: dict[NullHypothesis, float] = {}
    new: set[tuple[str, str]] = set()
    late: set[tuple[str, str]] = set()
    for test, p in present.p_values.items():
        past = [
            look
            for look in earlier
            if test in look.p_values and look.scope(test.pair) == present.scope(test.pair)
        ]
        seeds = present.seeds_of(test.pair)
        p_values = [
            p if look.seeds_of(test.pair) == seeds else look.p_values[test] for look in past
        ]
        known = [place for place, look in enumerate(past) if look.seeds_of(test.pair) == seeds]
        if not known:
            p_values.append(p)
            new.add(test.pair)
        if (known[0] if known else len(past)) >= planned:
            late.add(test.pair)
        corrected[test] = min(1.0, planned * min(p_values[:planned]))
    looks = [*earlier, present.restricted(new)] if new else [*earlier]
    return Spent(corrected, looks, late)


def read_looks(folder: Path) -> list[Look]:
    """Read the looks of a comparison folder; none without the file.

    Raises:
        UserError: a line is damaged.
    """
    path = folder / LOOKS
    lines = read_json_lines(path) if path.is_file() else ()
    advice = "restore the file from a copy"
    return [
        Look.of(parsed(LookEntry, line, f"{path}:{number}: damaged", advice))
        for number, line in enumerate(lines, start=1)
    ]


def write_looks(folder: Path, looks: Sequence[LookEntry]) -> None:
    """Write "looks" of results.json to a comparison folder, those of earlier reports first."""
    write_text(folder / LOOKS, "".join(f"{to_json(look)}\n" for look in looks))
