"""The verdict of a comparison, with warnings, and its table for the terminal."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dialog.report.completion import complete
from dialog.report.measures import LOSSY, LOSSY_NOTE
from dialog.report.sections.contract import broken_settings
from dialog.report.sections.cost import cost
from dialog.report.sections.ratings import ratings
from dialog.report.sections.scores import generation, likelihood
from dialog.report.tables import SUBSETS, ReportCell, ReportTable, Results, RowGroup
from dialog.report.terminal import display_width, one_line

NARROW = 10
"""Columns of a heading that is not broken into lines."""


def paired_texts(verdicts: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the text of each verdict, with the pair in front if there are several pairs."""
    several = len({(verdict["a"], verdict["b"]) for verdict in verdicts}) > 1
    return [(f"{verdict['a']} and {verdict['b']}: " if several else "") + verdict["text"] for verdict in verdicts]


def verdict_lines(results: Results) -> list[str]:
    """Return the verdict on all dialogues, a line for each pair of contenders."""
    lines = paired_texts([verdict for verdict in results["verdicts"] if verdict["subset"] == "all"])
    return lines or list(filter(None, [str(results["verdict"])]))


def other_verdicts(results: Results) -> dict[str, list[str]]:
    """Return the verdicts on other subsets than all dialogues, by subset."""
    return {
        title: texts
        for subset, title in SUBSETS.items()
        if subset != "all"
        and (texts := paired_texts([verdict for verdict in results["verdicts"] if verdict["subset"] == subset]))
    }


def terminal_table(results: Results) -> str:
    """Return warnings, verdict and summary in aligned columns, with `*` at decided differences."""
    results = complete(results)
    paragraphs = [f"warning: {one_line(str(warning))}" for warning in results["warnings"]]
    paragraphs += map(one_line, verdict_lines(results))
    table = _summary(results)
    lines = ["\n".join(paragraphs) + "\n"] if paragraphs else []
    lines += [aligned(table)]
    if any(cell.mark == "decided" for row in table.rows for cell in row):
        lines.append("* decided: significant after Holm's correction")
    if any(LOSSY in cell.text for row in table.rows for cell in row[1:]):
        lines.append(LOSSY_NOTE.strip())
    broken = [", ".join(one_line(cell.text) for cell in row[:-1]) for row in broken_settings(results)]
    lines += [f"must be equal but differs: {row}" for row in broken]
    lines += [aligned(rating) for rating in ratings(results).tables]
    return "\n".join(lines) + "\n"


def ratings_table(results: Results) -> str:
    """Return wins, ties and agreement of blind ratings in aligned columns."""
    return "\n\n".join(f"{aligned(table)}\n{table.caption}" for table in ratings(complete(results)).tables) + "\n"


def aligned(table: ReportTable) -> str:
    """Return a table in aligned columns, with `*` after decided cells and a rule above each group.

    A heading that is wider than its column is broken into lines.
    """
    groups = [[[_mark(cell) for cell in row] for row in group.rows] for group in table.groups]
    rows = [row for group in groups for row in group]
    columns = range(len(table.head))
    cells = [max((display_width(row[column]) for row in rows), default=0) for column in columns]
    headings = [_broken(one_line(name), max(width, NARROW)) for name, width in zip(table.head, cells, strict=True)]
    widths = [max(width, *map(display_width, lines)) for width, lines in zip(cells, headings, strict=True)]
    rule = "-" * (sum(widths) + 2 * len(widths) - 2)
    height = max(map(len, headings))
    lines = [_align(list(row), widths) for row in zip(*([""] * (height - len(h)) + h for h in headings), strict=True)]
    for group, rows in zip(table.groups, groups, strict=True):
        lines += [rule, *([group.title] if group.title else []), *(_align(row, widths) for row in rows)]
    return "\n".join(lines)


def _summary(results: Results) -> ReportTable:
    """Join quality on all dialogues and cost; without the columns of reference systems."""
    count, groups, head = len(results["models"]), [], ("",)
    for section in (likelihood(results), generation(results)):
        for table in section.tables[:1]:
            tests = table.head[count + 1 : len(table.head) - table.references]
            shown = [column for column, name in enumerate(tests, start=count + 1) if name != "Prob. of improvement"]
            columns = [*range(count + 1), *shown]
            head = tuple(table.head[column] for column in columns)
            groups += [RowGroup("", tuple(tuple(row[c] for c in columns) for row in table.groups[0].rows))]
    empty = (ReportCell(""),) * (len(head) - count - 1)
    groups += [RowGroup("", tuple((*row, *empty) for row in table.rows)) for table in cost(results).tables]
    return ReportTable(head if len(head) > 1 else ("", *(m["name"] for m in results["models"])), tuple(groups))


def _mark(cell: ReportCell) -> str:
    return one_line(cell.text) + (" *" if cell.mark == "decided" else "")


def _broken(heading: str, width: int) -> list[str]:
    """Break a heading after slashes and spaces and before brackets; lines are as wide as the column if possible."""
    lines = [""]
    for part in re.split(r"(?<=[/ ])|(?=\[)", heading):
        if lines[-1] and display_width((lines[-1] + part).rstrip()) > width:
            lines.append(part)
        else:
            lines[-1] += part
    return [line.rstrip() for line in lines]


def _align(cells: list[str], widths: list[int]) -> str:
    heading = cells[0] + " " * (widths[0] - display_width(cells[0]))
    others = (" " * (width - display_width(text)) + text for text, width in zip(cells[1:], widths[1:], strict=True))
    return "  ".join((heading, *others)).rstrip()
