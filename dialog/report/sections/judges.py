"""Preferences of programs that judge pairs of responses."""

from __future__ import annotations

from dialog.escaping import one_line
from dialog.report.formats.numbers import percent
from dialog.report.formats.preferences import JudgedPair
from dialog.report.formats.results import Results
from dialog.report.sections.ratings import share_interval
from dialog.report.tables import (
    ReportSection,
    Row,
    RowGroup,
    optional,
    table_of_groups,
    text_row,
)

TITLE = "Judge"
CONTRADICTING = 0.5
"""Consistency below which a note says that the judge contradicts itself."""


def judges(results: Results) -> ReportSection:
    """Return the preference share, consistency and position bias of each judge by pair of
    contenders.
    """
    entries = results.judges
    head = (
        *("", "Preferred the first", "Preferred the second", "Ties", "Preference"),
        *("95 % interval", "Consistent", "Chose the one shown first"),
    )
    groups = [
        RowGroup(one_line(entry.command)[:100], tuple(map(_pair, entry.pairs))) for entry in entries
    ]
    caption = (
        "Preference: share of pairs of responses in which the judge prefers the first contender,"
        " ties counting half, with its interval over dialogues and runs. Each pair is judged in"
        " both orders. Consistent: share of pairs judged alike in both; the others count as ties,"
        " as do equal responses, which the judge does not see. A judge without a bias for a"
        " position chooses the one shown first in 50 % of its decided answers."
    )
    pairs = [pair for entry in entries for pair in entry.pairs]
    notes = [
        f"The judge contradicts itself in {percent(1 - pair.consistency)} of the pairs of"
        f" {pair.a} and {pair.b}; its preference says little."
        for pair in pairs
        if pair.consistency is not None and pair.consistency < CONTRADICTING
    ]
    agreements = [
        f"Agreement with the choice of most raters on {entry.agreement.items} pairs of responses:"
        f" {optional(entry.agreement.raw, percent)}, Cohen's kappa"
        f" {optional(entry.agreement.kappa, lambda value: f'{value:.2f}'.replace('-', '−'))}"
        f" ({one_line(entry.command)[:100]})."
        for entry in entries
        if entry.agreement.items
    ]
    tables = table_of_groups(head, groups, caption=caption)
    return ReportSection(TITLE, tables, notes=(*notes, *agreements))


def _pair(entry: JudgedPair) -> Row:
    ties = entry.items - entry.chosen_a - entry.chosen_b
    return text_row(
        f"{entry.a} − {entry.b}",
        *map(str, (entry.chosen_a, entry.chosen_b, ties)),
        percent(entry.share),
        share_interval(entry.interval),
        optional(entry.consistency, percent),
        optional(entry.first, percent),
    )
