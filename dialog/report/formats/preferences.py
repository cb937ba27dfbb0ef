"""Preferences of people and judges in results.json: "ratings" and "judges"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class RaterSummary:
    """A rater: number of ratings and of ties among them; share of decided ratings that chose the
    response shown first; checks answered, and answered wrongly; whether the rater is excluded.
    """

    rater: str
    ratings: int
    ties: int
    first: float | None
    checks: int
    wrong: int
    excluded: bool


@dataclass(frozen=True)
class PairPreference:
    """Preference share of contender a over b, ties counting half, with its interval over raters and
    dialogues.
    """

    a: str
    b: str
    ratings: int
    pairs: int
    chosen_a: int
    chosen_b: int
    share: float
    interval: tuple[float, ...]
    p: float | None


@dataclass(frozen=True)
class Strength:
    """Strength of a contender in the model of Bradley and Terry, in log odds from the mean of
    all.
    """

    name: str
    strength: float
    interval: tuple[float, ...]


@dataclass(frozen=True)
class MajorityChoice:
    """Choice of most raters between two responses: "a", "b" or "tie"."""

    a: str
    b: str
    run: int
    example: str
    choice: str


@dataclass(frozen=True)
class RaterAgreement:
    """Krippendorff's alpha of the choices a, b and tie, over pairs of responses with two ratings or
    more.
    """

    units: int = 0
    alpha: float | None = None
    interval: tuple[float, ...] = ()


@dataclass(frozen=True)
class HumanRatings:
    """Ratings of a study; `sources` has the SHA-256 of the rated responses by contender."""

    level: float = 0.95
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    raters: tuple[RaterSummary, ...] = ()
    pairs: tuple[PairPreference, ...] = ()
    strengths: tuple[Strength, ...] = ()
    agreement: RaterAgreement = RaterAgreement()
    choices: tuple[MajorityChoice, ...] = ()


# ------------------------------------------------------------------ judges


@dataclass(frozen=True)
class PeopleAgreement:
    """Agreement of a judge with the choice of most raters: share of equal choices, and Cohen's
    kappa.
    """

    items: int = 0
    raw: float | None = None
    kappa: float | None = None


@dataclass(frozen=True)
class JudgedPair:
    """Choices of a judge between the responses of two contenders: share of preferences for the
    first with its interval, share of pairs judged alike in both orders, and share of answers that
    chose the response shown first.
    """

    a: str
    b: str
    items: int
    equal: int
    runs: int
    dialogues: int
    chosen_a: int
    chosen_b: int
    share: float
    interval: tuple[float, ...] | None
    consistency: float | None
    first: float | None


@dataclass(frozen=True)
class JudgeResults:
    """A judge: command, SHA-256 of its files and of the responses of each contender, what it
    prefers, and its agreement with people.
    """

    command: str
    files: Mapping[str, str]
    sources: Mapping[str, tuple[str, ...]]
    pairs: tuple[JudgedPair, ...]
    agreement: PeopleAgreement = PeopleAgreement()
