"""Ranking of contenders in a metric, with letters for groups that are not distinguished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dialog.report.formats.metrics import best_first
from dialog.report.formats.results import Difference, Ranked


def ranking(
    metric: str, values: Mapping[str, float], records: Sequence[Difference]
) -> tuple[Ranked, ...]:
    """Return name, mean and group letters of each contender, the best mean first; contenders that
    share a letter are not distinguished by a decided difference.

    Args:
        metric: The metric.
        values: Mean of each contender.
        records: Differences of the pairs in this metric.
    """
    names = best_first(metric, values)
    apart = {frozenset((record.a, record.b)) for record in records if record.decided}
    groups = undistinguished(names, apart)
    return tuple(
        Ranked(
            name,
            values[name],
            "".join(letter(place) for place, group in enumerate(groups) if name in group),
        )
        for name in names
    )


def undistinguished(names: Sequence[str], apart: set[frozenset[str]]) -> list[tuple[str, ...]]:
    """Return the largest groups of contenders of which no two are apart, each in the order of the
    names.

    Insert and absorb: Piepho (2004), Journal of Computational and Graphical Statistics 13.
    """
    groups = [frozenset(names)]
    for pair in apart:
        split = [
            part
            for group in groups
            for part in ([group - {name} for name in pair] if pair <= group else [group])
        ]
        groups = [
            group
            for place, group in enumerate(split)
            if not any(group < other for other in split) and group not in split[:place]
        ]
    ordered = [tuple(name for name in names if name in group) for group in groups]
    return sorted(ordered, key=lambda group: [names.index(name) for name in group])


def letter(place: int) -> str:
    """Return a, b, ..., z, aa, ab, ..."""
    letters = ""
    while place >= 0:
        letters = chr(ord("a") + place % 26) + letters
        place = place // 26 - 1
    return letters
