"""Blind ratings of pairs of responses: wins, ties, intervals and tests per pair of contenders,
agreement of raters.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from scipy.special import betaincinv

from dialog.atomic import lock, write_json
from dialog.comparison.statistics.interval import LEVEL
from dialog.errors import UserError
from dialog.escaping import printable
from dialog.json_files import read_json
from dialog.report.files import write_reports
from dialog.report.formats.results import (
    RESULTS,
    VERSION,
    Agreement,
    RatedPair,
    RaterCounts,
    Ratings,
    Results,
    as_read,
    read_results,
    results_of_json,
)
from dialog.report.sections.ratings import CHOICES, rating_fingerprint

FORMAT = 1
ALL = "all raters"
"""Name of the majority of several raters."""

log = logging.getLogger("dialog")


@dataclass(frozen=True)
class Rater:
    """Choices of a rater, "left", "right" or "tie", by the id of the pair; pairs that were skipped
    are left out.
    """

    name: str
    choices: Mapping[str, str]
    skipped: int = 0


def rate(results: Results, files: Sequence[Path]) -> Ratings:
    """Return the ratings of files.

    Raises:
        UserError: a file is damaged, belongs to another comparison, or rates unknown pairs.
    """
    raters = _distinct([read_ratings(file, results) for file in files])
    voters = [*raters, majority(raters)] if len(raters) > 1 else raters
    return Ratings(
        LEVEL,
        tuple(map(_counts, raters)),
        tuple(entry for voter in voters for entry in outcomes(voter, results)),
        tuple(agreement(one, other) for one, other in combinations(raters, 2)),
    )


def add_ratings(folder: Path, files: Sequence[Path]) -> Results:
    """Write the ratings into results.json and the reports of a comparison folder; return
    results.json.

    Raises:
        UserError: the folder has no results, or a file of ratings is invalid; nothing is written
            then.
    """
    results = read_results(folder)
    with lock(folder / ".report.lock", wait=True):
        results = read_results(folder)
        results = as_read(replace(results, ratings=rate(results, files)))
        write_reports(results, folder)
        write_json(folder / RESULTS, results)
    return results


def kept_ratings(path: Path, results: Results) -> Ratings:
    """Return the ratings of an earlier results.json if they rate the same pairs; nothing from a
    damaged file, or one of another version.
    """
    with suppress(UserError):
        content = read_json(path)
        if content.get("version") != VERSION and content.get("ratings"):
            log.warning("%s: has ratings of another version; add them again with --ratings", path)
        earlier = results_of_json(content, path)
        if rating_fingerprint(earlier) == rating_fingerprint(results):
            return earlier.ratings
    return Ratings()


def read_ratings(file: Path, results: Results) -> Rater:
    """Read the file that a rater has downloaded from report.html.

    Raises:
        UserError: the file is damaged, belongs to another comparison, or rates unknown pairs.
    """
    content = read_json(file, "format", "fingerprint", "ratings")
    if content["format"] != FORMAT:
        raise UserError(
            f"{file}: format {content['format']!r} of ratings is unsupported; this version reads"
            f" {FORMAT}"
        )
    expected = rating_fingerprint(results)
    if not expected:
        raise UserError(
            f"{file}: the comparison has no pairs for rating; run compare again to write them"
        )
    if content["fingerprint"] != expected:
        raise UserError(
            f"{file}: rates another comparison or an earlier version of it; rate with its present"
            " report.html"
        )
    pairs = {printable(pair.id) for pair in results.rating}  # as the page shows them
    choices: dict[str, str] = {}
    for number, (pair, choice) in enumerate(_entries(file, content["ratings"]), start=1):
        if not isinstance(pair, str) or pair not in pairs:
            raise UserError(f"{file}: rating {number}: unknown pair {pair!r}; remove this rating")
        if not isinstance(choice, str) or choice not in CHOICES:
            raise UserError(
                f"{file}: rating {number}: choice {choice!r} is not one of {', '.join(CHOICES)}"
            )
        if pair in choices:
            raise UserError(
                f"{file}: rating {number}: pair {pair!r} is rated twice; remove one of the ratings"
            )
        choices[pair] = choice
    rated = {pair: choice for pair, choice in choices.items() if choice != "skip"}
    if not rated:
        raise UserError(
            f"{file}: has no ratings; rate pairs in report.html and download them again"
        )
    return Rater(
        str(content.get("rater") or "").strip() or file.stem, rated, len(choices) - len(rated)
    )


def majority(raters: Sequence[Rater]) -> Rater:
    """Return the choice of most raters for each pair; "tie" if no choice has the most votes
    alone.
    """
    pairs = dict.fromkeys(pair for rater in raters for pair in rater.choices)
    votes = {
        pair: Counter(rater.choices[pair] for rater in raters if pair in rater.choices)
        for pair in pairs
    }
    leaders = {
        pair: [choice for choice in count if count[choice] == max(count.values())]
        for pair, count in votes.items()
    }
    return Rater(
        ALL, {pair: choices[0] if len(choices) == 1 else "tie" for pair, choices in leaders.items()}
    )


def outcomes(rater: Rater, results: Results) -> list[RatedPair]:
    """Return wins, ties, share of wins with its interval, and p of the sign test, for each pair of
    contenders.
    """
    names = results.names
    counts: dict[tuple[int, int], Counter[int | None]] = {}
    for pair in results.rating:
        if choice := rater.choices.get(printable(pair.id)):
            left, right = pair.models
            winner = {"left": left, "right": right, "tie": None}[choice]
            counts.setdefault((min(left, right), max(left, right)), Counter())[winner] += 1
    return [
        _outcome((names[a], names[b]), rater.name, (count[a], count[b], count[None]))
        for (a, b), count in sorted(counts.items())
    ]


def exact_interval(wins: int, trials: int) -> tuple[float, float]:
    """Return the interval at `LEVEL` of a binomial proportion (Clopper and Pearson 1934, Biometrika
    26).

    It contains 1/2 if and only if p of `sign_test` is above 1 - `LEVEL`; [0, 1] without trials.
    """
    tail = (1 - LEVEL) / 2
    low = float(betaincinv(wins, trials - wins + 1, tail)) if wins else 0.0
    high = float(betaincinv(wins + 1, trials - wins, 1 - tail)) if wins < trials else 1.0
    return low, high


def sign_test(wins: int, losses: int) -> float:
    """Return the exact two-sided p of the hypothesis that wins and losses are equally probable;
    ties are left out.
    """
    trials = wins + losses
    tail = sum(math.comb(trials, number) for number in range(min(wins, losses) + 1))
    return min(1.0, tail / 2.0 ** (trials - 1))


def agreement(one: Rater, other: Rater) -> Agreement:
    """Return the share of pairs on which two raters agree, and Cohen's kappa (1960) of left, right
    and tie.

    kappa = (observed - expected) / (1 - expected), `expected` from the frequencies of each rater's
    choices; None without common pairs, or if both always made the same choice.
    """
    common = [pair for pair in one.choices if pair in other.choices]
    raters = (one.name, other.name)
    if not common:
        return Agreement(raters, 0, None, None)
    raw = sum(one.choices[pair] == other.choices[pair] for pair in common) / len(common)
    first, second = (Counter(rater.choices[pair] for pair in common) for rater in (one, other))
    expected = sum(first[choice] * second[choice] for choice in CHOICES) / len(common) ** 2
    kappa = (raw - expected) / (1 - expected) if expected < 1 else None
    return Agreement(raters, len(common), raw, kappa)


def _entries(file: Path, ratings: object) -> Iterator[tuple[object, object]]:
    if not isinstance(ratings, list) or not all(isinstance(rating, dict) for rating in ratings):
        raise UserError(
            f"{file}: damaged (ratings is not a list of objects); download it again from"
            " report.html"
        )
    for rating in ratings:
        yield rating.get("id"), rating.get("choice")


def _outcome(pair: tuple[str, str], rater: str, counts: tuple[int, int, int]) -> RatedPair:
    (wins, losses, ties) = counts
    decided = wins + losses
    return RatedPair(
        *(*pair, rater, wins, losses, ties),
        share=wins / decided if decided else None,
        interval=exact_interval(wins, decided),
        p=sign_test(wins, losses),
    )


def _counts(rater: Rater) -> RaterCounts:
    counts = Counter(rater.choices.values())
    return RaterCounts(rater.name, rater.skipped, counts["left"], counts["right"], counts["tie"])


def _distinct(raters: Sequence[Rater]) -> list[Rater]:
    """Number raters of one name."""
    counts = Counter(rater.name for rater in raters)
    used: Counter[str] = Counter()
    named = []
    for rater in raters:
        used[rater.name] += 1
        name = f"{rater.name} ({used[rater.name]})" if counts[rater.name] > 1 else rater.name
        named.append(Rater(name, rater.choices, rater.skipped))
    return named
