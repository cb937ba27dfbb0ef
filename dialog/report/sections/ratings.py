"""Ratings of people in a study: preferences, strengths, raters and their agreement."""

from __future__ import annotations

from collections.abc import Sequence

from dialog.report.formats.numbers import counted, percent
from dialog.report.formats.preferences import (
    HumanRatings,
    PairPreference,
    RaterSummary,
    Strength,
)
from dialog.report.formats.results import Results
from dialog.report.tables import (
    NONE,
    ReportSection,
    Row,
    RowGroup,
    optional,
    p_text,
    table_of_groups,
    text_row,
)

TITLE = "Ratings of people"
INTERVAL = "95 % interval"
ENOUGH_RATERS = 4
"""Number of raters from which their differences are estimated well enough for intervals to cover
other raters.
"""


def ratings(results: Results) -> ReportSection:
    """Return preferences of pairs of contenders, strengths, and what each rater has done."""
    content = results.ratings
    if not content.raters:
        return ReportSection(TITLE)
    few = sum(not entry.excluded for entry in content.raters) < ENOUGH_RATERS
    tables = table_of_groups(
        ("", "Preferred the first", "Preferred the second", "Ties", "Preference", INTERVAL, "p"),
        [RowGroup("", tuple(map(_pair, content.pairs)))],
        caption=(
            "Preference: share of ratings that prefer the first contender, ties counting half."
            f" Intervals cover other {'' if few else 'raters and other '}dialogues, not other"
            " seeds, and are not corrected for several pairs. p: of an even share."
        ),
    )
    tables += table_of_groups(
        ("", "Strength", INTERVAL),
        [RowGroup("", tuple(map(_strength, content.strengths)))],
        caption=(
            "Strength after Bradley and Terry, in log odds from the mean of all contenders, without"
            " the bias of each rater for the response shown first."
        ),
    )
    tables += table_of_groups(
        ("", "Ratings", "Ties", "Chose the one shown first", "Wrong attention checks", "Excluded"),
        [RowGroup("", tuple(map(_rater, content.raters)))],
        caption="Raters with more than a fifth of their attention checks wrong are excluded.",
    )
    return ReportSection(TITLE, tables, notes=tuple(_notes(content)))


def share_interval(limits: Sequence[float] | None) -> str:
    """Format the interval of a share."""
    return f"[{100 * limits[0]:.1f}, {100 * limits[1]:.1f}] %" if limits else NONE


def _notes(content: HumanRatings) -> list[str]:
    excluded = [entry.rater for entry in content.raters if entry.excluded]
    number = len(content.raters)
    notes = ["No rater is excluded by attention checks."]
    if excluded:
        notes = [
            f"{number - len(excluded)} of {number} raters count; excluded by attention checks:"
            f" {', '.join(excluded)}."
        ]
    elif not any(entry.checks for entry in content.raters):
        notes = ["There were no attention checks."]
    if 0 < (kept := number - len(excluded)) < ENOUGH_RATERS:
        notes.append(
            f"With {counted(kept, 'rater')}, too few to know how raters differ, the intervals are"
            " about these raters only."
        )
    agreement = content.agreement
    if agreement.alpha is not None:
        limits = agreement.interval
        interval = f" ({INTERVAL} {limits[0]:.2f} to {limits[1]:.2f})" if limits else ""
        notes.append(
            f"Agreement: Krippendorff's alpha {agreement.alpha:.2f}{interval} over"
            f" {agreement.units} pairs of responses with several ratings; 0 by chance, 1 for"
            " equal choices.".replace("-", "−")
        )
    return notes


def _pair(entry: PairPreference) -> Row:
    ties = entry.ratings - entry.chosen_a - entry.chosen_b
    counts = (entry.chosen_a, entry.chosen_b, ties)
    return text_row(
        f"{entry.a} − {entry.b}",
        *map(str, counts),
        percent(entry.share),
        share_interval(entry.interval),
        p_text(entry.p),
    )


def _strength(entry: Strength) -> Row:
    limits = entry.interval
    interval = f"[{limits[0]:+.2f}, {limits[1]:+.2f}]" if limits else NONE
    texts = (f"{entry.strength:+.2f}", interval)
    return text_row(entry.name, *(text.replace("-", "−") for text in texts))


def _rater(entry: RaterSummary) -> Row:
    return text_row(
        entry.rater,
        str(entry.ratings),
        str(entry.ties),
        optional(entry.first, percent),
        f"{entry.wrong} of {entry.checks}",
        "yes" if entry.excluded else "no",
    )
