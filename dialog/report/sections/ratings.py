"""Blind rating: the fingerprint of the pairs, and the results: wins, ties and agreement between
raters.
"""

from __future__ import annotations

import hashlib
import json

from dialog.escaping import finite
from dialog.report.formats.numbers import percent
from dialog.report.formats.results import Agreement, RatedPair, Results
from dialog.report.tables import (
    ReportSection,
    Row,
    RowGroup,
    optional,
    p_text,
    table_of_groups,
    text_row,
)

CHOICES = ("left", "right", "tie", "skip")
"""Choices of a rater for a pair."""


def rating_fingerprint(results: Results) -> str:
    """Return a hash of the evaluation, the pairs, their order and the contenders; empty without
    pairs.

    The page shows it although raters must not know the contenders: it cannot be inverted.
    """
    if not results.rating:
        return ""
    pairs = finite(results.rating)
    content = json.dumps([results.fingerprint, results.names, pairs], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def ratings(results: Results) -> ReportSection:
    """Return wins, ties, interval and sign test per pair, and raw agreement and kappa of raters."""
    content = results.ratings
    if not content.raters:
        return ReportSection("Blind rating: results")
    outcomes: dict[str, list[Row]] = {}
    for entry in content.pairs:
        outcomes.setdefault(f"{entry.a} − {entry.b}", []).append(_outcome(entry))
    agreement = tuple(_agreement(entry) for entry in content.agreement)
    level = f"{100 * content.level:g} % interval"
    caption = (
        "Blind rating of pairs of responses. Share: wins of the first of the pair among decided"
        " ratings, with its exact interval; p: two-sided sign test. All raters: the majority choice"
        " per pair of responses."
    )
    agreement_caption = (
        "Agreement of raters on left, right or tie: raw, and Cohen's kappa, which is 0 by chance."
    )
    head = ("", "Wins of the first", "Wins of the second", "Ties", "Share", level, "p")
    groups = [RowGroup(pair, tuple(rows)) for pair, rows in outcomes.items()]
    tables = table_of_groups(head, groups, caption=caption)
    heading = ("Raters", "Pairs rated by both", "Agreement", "Cohen's kappa")
    tables += table_of_groups(heading, [RowGroup("", agreement)], caption=agreement_caption)
    return ReportSection("Blind rating: results", tables)


def _outcome(entry: RatedPair) -> Row:
    low, high = entry.interval
    interval = f"[{100 * low:.1f}, {100 * high:.1f}] %"
    return (
        *text_row(entry.rater, *map(str, (entry.wins_a, entry.wins_b, entry.ties))),
        *text_row(optional(entry.share, percent), interval, p_text(entry.p)),
    )


def _agreement(entry: Agreement) -> Row:
    kappa = optional(entry.kappa, lambda value: f"{value:.2f}")
    return text_row(
        " and ".join(entry.raters), str(entry.items), optional(entry.raw, percent), kappa
    )
