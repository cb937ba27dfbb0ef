"""An inspection for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

import click

from dialog.inspection.findings import Bars, Finding, Quoted, State, Table
from dialog.inspection.inspect import Inspection
from dialog.report.measures import count
from dialog.report.terminal import display_width, fitting_length, one_line, truncate

MARKS: dict[State, tuple[str, str]] = {"good": ("✓", "green"), "look": ("!", "yellow"), "bad": ("✗", "red")}
LABEL, BAR = 34, 30
QUOTED = 3
"""Lines of a quoted text."""


def to_text(inspection: Inspection, title: str, width: int) -> str:
    """The whole inspection in lines of at most `width` columns; text of the corpus cannot command the terminal."""
    return "\n".join(_lines(inspection, title, max(60, width))) + "\n"


def _lines(inspection: Inspection, title: str, width: int) -> Iterator[str]:
    yield click.style(truncate(one_line(title), width), bold=True)
    yield from _table(Table("", ("", "dialogues", "turns", "turns a dialogue"), _sizes(inspection)), width)
    yield ""
    yield from _overview(inspection.findings, width)
    for finding in inspection.findings.values():
        yield ""
        yield from _finding(finding, width)


def _sizes(inspection: Inspection) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (split, count(size["dialogues"]), count(size["turns"]), f"{size['turns'] / max(size['dialogues'], 1):.2f}")
        for split, size in inspection.sizes.items()
    )


def _overview(findings: dict[str, Finding], width: int) -> Iterator[str]:
    """One line a finding."""
    room = max(display_width(finding.title) for finding in findings.values()) + 3
    for finding in findings.values():
        mark, colour = MARKS[finding.state]
        headline = truncate(one_line(finding.headline), width - room - 4)
        yield f"  {click.style(mark, fg=colour, bold=True)} {finding.title:<{room}}{headline}"


def _finding(finding: Finding, width: int) -> Iterator[str]:
    mark, colour = MARKS[finding.state]
    rule = "─" * max(0, width - display_width(finding.title) - 5)
    yield f"{click.style(f'{mark} {finding.title}', fg=colour, bold=True)}  {click.style(rule, dim=True)}"
    yield from _wrapped(finding.summary, width, "  ")
    for shown in finding.shown:
        yield ""
        yield from _shown(shown, width)
    if finding.advice:
        yield ""
        yield from (click.style(line, fg="cyan") for line in _wrapped(finding.advice, width, "  → ", "    "))


def _shown(shown: Table | Bars | Quoted, width: int) -> Iterator[str]:
    yield click.style(f"  {truncate(one_line(shown.caption), width - 2)}", dim=True)
    match shown:
        case Table():
            yield from _table(shown, width)
        case Bars():
            yield from _bars(shown, width)
        case Quoted():
            yield from _quoted(shown, width)


def _table(table: Table, width: int) -> Iterator[str]:
    lines = ([one_line(cell) for cell in row] for row in (table.head, *table.rows))
    rows = [[name, *(truncate(cell, LABEL) for cell in cells)] for name, *cells in lines]
    rest = sum(max(display_width(row[place]) for row in rows) + 2 for place in range(1, len(table.head)))
    first = min(max(display_width(row[0]) for row in rows), max(12, width - rest - 4))
    widths = [first, *(max(display_width(row[place]) for row in rows) for place in range(1, len(table.head)))]
    for number, row in enumerate(rows):
        name = truncate(row[0], first)
        cells = (" " * (size + 2 - display_width(cell)) + cell for cell, size in zip(row[1:], widths[1:], strict=True))
        line = f"    {name}{' ' * (first - display_width(name))}{''.join(cells)}"
        yield click.style(line, bold=True) if number == 0 else line


def _bars(bars: Bars, width: int) -> Iterator[str]:
    longest = max((size for _, size, _ in bars.bars), default=0) or 1
    labels = [truncate(one_line(label), LABEL) for label, _, _ in bars.bars]
    label_width = max(map(display_width, labels), default=0)
    notes = max((display_width(note) for _, _, note in bars.bars), default=0)
    room = max(10, min(BAR, width - label_width - notes - 8))
    for label, (_, size, note) in zip(labels, bars.bars, strict=True):
        yield f"    {label}{' ' * (label_width - display_width(label))}  {_bar(size / longest, room)}  {note}"


def _bar(part: float, room: int) -> str:
    """A share of `room` columns in eighths of one; what is more than nothing shows."""
    eighths = max(round(part * room * 8), 1 if part > 0 else 0)
    full, rest = divmod(eighths, 8)
    drawn = "█" * full + ("▏▎▍▌▋▊▉"[rest - 1] if rest else "")
    return click.style(drawn, fg="blue") + " " * (room - full - bool(rest))


def _quoted(quoted: Quoted, width: int) -> Iterator[str]:
    for who, text in quoted.lines:
        name = truncate(one_line(who), LABEL)
        first = f"    {name}: " if name else "    "
        lines = list(_wrapped(text[: QUOTED * width], width, first, "      "))
        yield from lines[:QUOTED]
        if len(lines) > QUOTED or len(text) > QUOTED * width:
            yield "      …"


def _wrapped(text: str, width: int, first: str, then: str | None = None) -> Iterator[str]:
    """A text in lines of at most so many columns, cut between words where that can be."""
    then = first if then is None else then
    line, bare = first, True
    for word in one_line(text).split(" "):
        if not bare and display_width(line) + 1 + display_width(word) > width:
            yield line
            line, bare = then, True
        line += word if bare else f" {word}"
        bare = False
        while display_width(line) > width:
            end = fitting_length(line, width)
            yield line[:end]
            line = then + line[end:]
    yield line
