"""``--ratings FILE``: read the choices of raters in a study, or blind votes of ``dialog serve``;
exclude raters by their attention checks, and estimate preferences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from dialog.comparison.preference.agreement import krippendorff
from dialog.comparison.preference.estimation import (
    RatedSample,
    bradley_terry,
    limits,
    p_value,
    share,
    share_limits,
    two_way,
)
from dialog.comparison.preference.judge import with_new_ratings
from dialog.comparison.preference.pairs import (
    SCORES,
    change_results,
    sources_of,
)
from dialog.comparison.preference.rating_files import Pair, Rating, RatingReader
from dialog.comparison.statistics.interval import LEVEL
from dialog.report.formats.preferences import (
    HumanRatings,
    MajorityChoice,
    PairPreference,
    RaterSummary,
    Strength,
)
from dialog.report.formats.results import Results, read_results

MOST_WRONG = 0.2
"""Share of wrong attention checks above which a rater is excluded."""


def add_ratings(folder: Path, files: Sequence[Path]) -> Results:
    """Write the ratings of a study into results.json and the reports, with the agreement of earlier
    judges; return results.json.

    Raises:
        UserError: the comparison is not finished, a file is invalid, or responses have changed
            since the study was written.
    """
    results = read_results(folder)
    present = sources_of(results)
    ratings = RatingReader(folder, results).read(files)
    new = analysis(ratings, present)
    return change_results(folder, lambda now: with_new_ratings(folder, now, new))


# ------------------------------------------------------------------ analysis


def analysis(ratings: Sequence[Rating], sources: Mapping[str, Any]) -> HumanRatings:
    """Return preferences, strengths and agreement of the raters who are not excluded.

    Args:
        ratings: Ratings of all raters.
        sources: SHA-256 of the responses of all contenders.
    """
    raters = [summary(name, own) for name, own in grouped(ratings).items()]
    excluded = {rater.rater for rater in raters if rater.excluded}
    kept = [one for one in ratings if "pair" in one.key and one.rater not in excluded]
    if not kept:
        return HumanRatings(LEVEL, sources, tuple(raters))
    compared = {name for one in kept for name in one.pair[:2]}
    names = [name for name in sources if name in compared]
    sample = sample_of(kept, names)
    units: dict[Pair, Counter[str]] = {}
    dialogues: dict[Pair, str] = {}
    for one in kept:
        units.setdefault(one.pair, Counter())[one.winner] += 1
        dialogues[one.pair] = one.key["dialogue"]
    in_test_set = {one.pair for one in kept if not one.key.get("outside")}
    return HumanRatings(
        LEVEL,
        {name: sources[name] for name in names},
        tuple(raters),
        tuple(
            pair_preference(pair, kept, sample, names)
            for pair in combinations(names, 2)
            if any(one.pair[:2] == pair for one in kept)
        ),
        strengths(sample, names),
        krippendorff([*units.values()], [*dialogues.values()]),
        tuple(
            MajorityChoice(*pair, majority(votes))
            for pair, votes in units.items()
            if pair in in_test_set
        ),
    )


def grouped(ratings: Sequence[Rating]) -> dict[str, list[Rating]]:
    """Return the ratings of each rater."""
    groups: dict[str, list[Rating]] = {}
    for one in ratings:
        groups.setdefault(one.rater, []).append(one)
    return groups


def summary(name: str, ratings: Sequence[Rating]) -> RaterSummary:
    """Return what a rater has done; above `MOST_WRONG` wrong checks, the rater is excluded."""
    rated = [one.choice for one in ratings if "pair" in one.key]
    checks = [one.choice == one.key["check"] for one in ratings if "check" in one.key]
    decided = len(rated) - rated.count("tie")
    wrong = checks.count(False)
    return RaterSummary(
        name,
        len(rated),
        rated.count("tie"),
        rated.count("a") / decided if decided else None,
        len(checks),
        wrong,
        wrong > MOST_WRONG * len(checks),
    )


def sample_of(ratings: Sequence[Rating], names: Sequence[str]) -> RatedSample:
    """Return ratings as numbers."""
    firsts = [names.index(one.key["first"]) for one in ratings]
    sums = [sum(names.index(name) for name in one.pair[:2]) for one in ratings]
    return RatedSample(
        np.array(firsts),
        np.array(sums) - np.array(firsts),
        np.array([SCORES[one.choice] for one in ratings]),
        np.unique([one.rater for one in ratings], return_inverse=True)[1],
        np.unique([one.key["dialogue"] for one in ratings], return_inverse=True)[1],
    )


def pair_preference(
    pair: tuple[str, str], ratings: Sequence[Rating], sample: RatedSample, names: Sequence[str]
) -> PairPreference:
    """Return the preference share of a pair of contenders."""
    own = [one for one in ratings if one.pair[:2] == pair]
    mask = np.array([one.pair[:2] == pair for one in ratings])
    mean, variances = share(sample.select(mask), names.index(pair[0]))
    counts = Counter(one.winner for one in own)
    return PairPreference(
        *pair,
        len(own),
        len({one.pair for one in own}),
        counts["a"],
        counts["b"],
        mean,
        share_limits(mean, variances, 1 - LEVEL),
        p_value(mean, variances),
    )


def strengths(sample: RatedSample, names: Sequence[str]) -> tuple[Strength, ...]:
    """Return the strengths of the contenders, the strongest first."""
    model = bradley_terry(sample, len(names))
    entries = []
    for place, name in enumerate(names):
        variances = two_way(model.influence[:, place], sample.raters, sample.dialogues)
        strength = float(model.strengths[place])
        entries.append(Strength(name, strength, limits(strength, variances, 1 - LEVEL)))
    return tuple(sorted(entries, key=lambda entry: -entry.strength))


def majority(votes: Counter[str]) -> str:
    """Return the choice with most votes; a tie if several have as many."""
    leaders = [choice for choice in votes if votes[choice] == max(votes.values())]
    return leaders[0] if len(leaders) == 1 else "tie"
