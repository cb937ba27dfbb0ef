"""Blind ratings of pairs of responses: wins, ties, intervals and tests per pair of contenders,
agreement of raters.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from scipy.special import betaincinv

from dialog.atomic import lock, write_json
from dialog.comparison.statistics.interval import LEVEL
from dialog.errors import UserError
from dialog.escaping import json_copy, printable
from dialog.json_files import read_json
from dialog.report.files import write_reports
from dialog.report.sections.ratings import CHOICES, rating_fingerprint
from dialog.report.tables import model_names

RESULTS = "results.json"
FORMAT = 1
RESULTS_VERSION = 6
"""Version of results.json."""
ALL = "all raters"
"""Name of the majority of several raters."""


@dataclass(frozen=True)
class Rater:
    """Choices of a rater, "left", "right" or "tie", by the id of the pair; pairs that were skipped
    are left out.
    """

    name: str
    choices: Mapping[str, str]
    skipped: int = 0


def rate(results: Mapping[str, Any], files: Sequence[Path]) -> dict[str, Any]:
    """Return the content of "ratings" in results.json.

    Raises:
        UserError: a file is damaged, belongs to another comparison, or rates unknown pairs.
    """
    raters = _distinct([read_ratings(file, results) for file in files])
    voters = [*raters, majority(raters)] if len(raters) > 1 else raters
    return {
        "level": LEVEL,
        "raters": [_rater_entry(rater) for rater in raters],
        "pairs": [entry for voter in voters for entry in outcomes(voter, results)],
        "agreement": [agreement(one, other) for one, other in combinations(raters, 2)],
    }


def add_ratings(folder: Path, files: Sequence[Path]) -> dict[str, Any]:
    """Write the ratings into results.json and the reports of a comparison folder; return
    results.json.

    Raises:
        UserError: the folder has no results, or a file of ratings is invalid; nothing is written
            then.
    """
    path = folder / RESULTS
    if not path.is_file():
        raise UserError(
            f"{folder}: is not a finished comparison ({RESULTS} is missing); ratings need one"
        )
    with lock(folder / ".report.lock", wait=True):
        results = read_json(path, "models")
        if results.get("version") != RESULTS_VERSION:
            raise UserError(
                f"{path}: has version {results.get('version', 'below 6')}, not {RESULTS_VERSION};"
                f" run compare {folder} first"
            )
        results["ratings"] = json_copy(rate(results, files))
        write_reports(results, folder)
        write_json(path, results)
    return results


def kept_ratings(path: Path, results: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ratings of an earlier results.json if they rate the same pairs; nothing from a
    damaged file.
    """
    with suppress(UserError):
        earlier = read_json(path, "rating", "ratings")
        if rating_fingerprint(earlier) == rating_fingerprint(results):
            return dict(earlier["ratings"])
    return {}


def read_ratings(file: Path, results: Mapping[str, Any]) -> Rater:
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
    expected = rating_fingerprint(results) if results.get("rating") else ""
    if not expected:
        raise UserError(
            f"{file}: the comparison has no pairs for rating; run compare again to write them"
        )
    if content["fingerprint"] != expected:
        raise UserError(
            f"{file}: rates another comparison or an earlier version of it; rate with its present"
            " report.html"
        )
    pairs = {printable(pair["id"]) for pair in results["rating"]}  # as the page shows them
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


def outcomes(rater: Rater, results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return wins, ties, share of wins with its interval, and p of the sign test, for each pair of
    contenders.
    """
    names = model_names(results)
    counts: dict[tuple[int, int], Counter[int | None]] = {}
    for pair in results["rating"]:
        if choice := rater.choices.get(printable(pair["id"])):
            left, right = pair["models"]
            winner = {"left": left, "right": right, "tie": None}[choice]
            counts.setdefault((min(left, right), max(left, right)), Counter())[winner] += 1
    return [
        {
            "a": names[a],
            "b": names[b],
            "rater": rater.name,
            **_outcome(count[a], count[b], count[None]),
        }
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


def agreement(one: Rater, other: Rater) -> dict[str, Any]:
    """Return the share of pairs on which two raters agree, and Cohen's kappa (1960) of left, right
    and tie.

    kappa = (observed - expected) / (1 - expected), `expected` from the frequencies of each rater's
    choices; None without common pairs, or if both always made the same choice.
    """
    common = [pair for pair in one.choices if pair in other.choices]
    entry = {"raters": [one.name, other.name], "items": len(common), "raw": None, "kappa": None}
    if not common:
        return entry
    raw = sum(one.choices[pair] == other.choices[pair] for pair in common) / len(common)
    first, second = (Counter(rater.choices[pair] for pair in common) for rater in (one, other))
    expected = sum(first[choice] * second[choice] for choice in CHOICES) / len(common) ** 2
    return entry | {
        "raw": raw,
        "kappa": (raw - expected) / (1 - expected) if expected < 1 else None,
    }


def _entries(file: Path, ratings: object) -> Iterator[tuple[object, object]]:
    if not isinstance(ratings, list) or not all(isinstance(rating, dict) for rating in ratings):
        raise UserError(
            f"{file}: damaged (ratings is not a list of objects); download it again from"
            " report.html"
        )
    for rating in ratings:
        yield rating.get("id"), rating.get("choice")


def _outcome(wins: int, losses: int, ties: int) -> dict[str, Any]:
    decided = wins + losses
    return {
        "wins_a": wins,
        "wins_b": losses,
        "ties": ties,
        "share": wins / decided if decided else None,
        "interval": list(exact_interval(wins, decided)),
        "p": sign_test(wins, losses),
    }


def _rater_entry(rater: Rater) -> dict[str, Any]:
    counts = Counter(rater.choices.values())
    return {
        "rater": rater.name,
        "skipped": rater.skipped,
        **{choice: counts[choice] for choice in CHOICES[:3]},
    }


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
