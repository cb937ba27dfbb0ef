"""``--judge 'COMMAND'``: a program chooses between responses of two contenders to one context.

It reads lines {"id", "context", "references", "a", "b"} and writes {"id", "choice"} for each, where
the choice is "a", "b" or "tie". Each pair is asked in both orders. Answers are kept in
judges/<hash of the command>/, as those of a system are.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dialog.comparison.preference.agreement import agreement
from dialog.comparison.preference.pairs import (
    CHOICES,
    EVEN,
    SCORES,
    ResponsePair,
    Responses,
    change_results,
    draw_pairs,
    pair_of,
    preference,
    read_contenders,
    sources_of,
)
from dialog.comparison.systems.answers import Answers
from dialog.comparison.systems.program import answer_contexts
from dialog.comparison.systems.specification import Specification
from dialog.escaping import one_line, to_json
from dialog.report.formats.preferences import (
    HumanRatings,
    JudgedPair,
    JudgeResults,
    PeopleAgreement,
)
from dialog.report.formats.results import Results, read_results
from dialog.report.progress import ProgressBars

JUDGES = "judges"
ITEMS = 200
"""Pairs of responses of each two contenders."""
OTHER = {"a": "b", "b": "a", "tie": "tie"}
"""Choices after an exchange of the responses."""

log = logging.getLogger("dialog")


class JudgeCommand(Specification):
    """The program of a judge."""

    @property
    def flag(self) -> str:
        """The option, for messages."""
        return "--judge"

    @property
    def adapters(self) -> Mapping[str, str]:
        """Modules by the word before the colon of a command."""
        return {"openai": "dialog.comparison.preference.endpoint"}


class Choices(Answers):
    """Choices of a judge, kept in its folder."""

    field = "choice"
    unit = "questions"
    keeps_others = True  # ids are hashes of the texts

    def __init__(self, folder: Path, ids: Collection[str]) -> None:
        super().__init__(folder, "judge", ids)
        self.asked = set(ids)
        self.bars = ProgressBars()

    def unusable(self, value: object) -> str:
        """Return why a value is no choice, for a message; empty if it is one."""
        return "" if value in CHOICES else f"is {to_json(value)[:60]}; give a, b or tie"

    def add(self, content: bytes) -> None:
        """Keep a line of the program, and show the progress."""
        super().add(content)
        done = len(self.asked & self.lines.keys())
        self.bars.show("judge", done, len(self.asked))


@dataclass(frozen=True)
class Judgement:
    """Choices about a pair in the order (a, b) and after an exchange, "a" the first response shown;
    none about equal responses.
    """

    pair: ResponsePair
    shown: tuple[str, str] | None

    @property
    def is_consistent(self) -> bool:
        """Whether both orders have the same better response, or both a tie."""
        return self.shown is None or self.shown[0] == OTHER[self.shown[1]]

    @property
    def choice(self) -> str:
        """Contender chosen in both orders; else a tie."""
        return self.shown[0] if self.shown and self.is_consistent else "tie"


def judge(folder: Path, text: str, *, items: int | None = None, seconds: float = 300.0) -> Results:
    """Have a program judge pairs of a finished comparison, write its preferences into results.json
    and the reports, and return results.json.

    Args:
        folder: Folder of the comparison.
        text: Command of the judge.
        items: Pairs of responses of each two contenders, by default `ITEMS`.
        seconds: Longest time for one answer.

    Raises:
        UserError: the comparison is not finished, or the judge fails; its answers so far are kept.
    """
    command = JudgeCommand("judge", text.strip())
    _ = command.command
    results = read_results(folder)
    contenders = read_contenders(folder, results)
    drawn = draw_pairs(contenders, items or ITEMS)
    rated = rated_pairs(contenders, results.ratings)
    pairs = [pair for one in drawn.values() for pair in one] + rated
    different = [pair for pair in pairs if not pair.is_equal]
    questions = {row["id"]: row for pair in different for row in questions_of(pair)}
    choices = Choices(folder_of(folder, command.text), questions)
    with choices.bars:
        answer_contexts(command, [*questions.values()], choices, seconds=seconds)
    answers = {key: line["choice"] for key, line in choices.lines.items()}
    entry = JudgeResults(
        **choices.fingerprint,
        sources=sources_of(results),
        pairs=tuple(
            judged_pair(names, [judgement(pair, answers) for pair in one])
            for names, one in drawn.items()
        ),
        agreement=agreement_with_people(results.ratings, rated, answers),
    )
    for one in entry.pairs:
        if one.consistency is not None and one.consistency < EVEN:
            log.warning(
                "WARNING: judge: contradicts itself in %d %% of the pairs of %s and %s, which count"
                " as ties",
                round(100 * (1 - one.consistency)),
                one.a,
                one.b,
            )

    def replaced(present: Results) -> Results:
        others = (one for one in present.judges if one.command != entry.command)
        return replace(present, judges=(*others, entry))

    return change_results(folder, replaced)


def folder_of(folder: Path, command: str) -> Path:
    """Return the folder of a judge in a comparison."""
    return folder / JUDGES / hashlib.sha256(command.encode()).hexdigest()[:12]


# ------------------------------------------------------------------ agreement with people


def rated_pairs(
    contenders: Mapping[str, Sequence[Responses]], ratings: HumanRatings
) -> list[ResponsePair]:
    """Return the pairs with a choice of most raters."""
    return [pair_of(contenders, (one.a, one.b, one.run, one.example)) for one in ratings.choices]


def agreement_with_people(
    ratings: HumanRatings, rated: Sequence[ResponsePair], answers: Mapping[str, str]
) -> PeopleAgreement:
    """Return the agreement of a judge with most raters, over the rated pairs that the judge has
    answered in both orders.
    """
    people = {(one.a, one.b, one.run, one.example): one.choice for one in ratings.choices}
    judged = {pair.key: judgement(pair, answers).choice for pair in rated if has(answers, pair)}
    return agreement(people, judged)


def has(answers: Mapping[str, str], pair: ResponsePair) -> bool:
    """Return whether both questions about a pair are answered, or need no answer."""
    return pair.is_equal or all(row["id"] in answers for row in questions_of(pair))


def with_new_ratings(folder: Path, results: Results, ratings: HumanRatings) -> Results:
    """Return results with other ratings, and the agreement of each judge with these, computed from
    its kept answers.
    """
    rated = rated_pairs(read_contenders(folder, results), ratings) if results.judges else []
    judges = []
    for entry in results.judges:
        place = folder_of(folder, entry.command)
        lines = Choices(place, ()).lines if place.is_dir() else {}
        answers = {key: line["choice"] for key, line in lines.items()}
        missing = sum(not has(answers, pair) for pair in rated)
        if missing:
            log.warning(
                "WARNING: judge: has not answered about %d of %d rated pairs; repeat --judge %s",
                missing,
                len(rated),
                shlex.quote(one_line(entry.command)),
            )
        judges.append(replace(entry, agreement=agreement_with_people(ratings, rated, answers)))
    return replace(results, ratings=ratings, judges=tuple(judges))


# ------------------------------------------------------------------ judgements


def questions_of(pair: ResponsePair) -> list[dict[str, Any]]:
    """Return the lines that ask a judge about a pair in both orders; their ids are hashes of the
    texts.
    """
    lines = []
    for a, b in (pair.responses, pair.responses[::-1]):
        texts = {"context": pair.context, "references": pair.references, "a": a, "b": b}
        name = hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16]
        lines.append({"id": name, **texts})
    return lines


def judgement(pair: ResponsePair, answers: Mapping[str, str]) -> Judgement:
    """Return what a judge has answered about a pair."""
    if pair.is_equal:
        return Judgement(pair, None)
    first, second = (answers[row["id"]] for row in questions_of(pair))
    return Judgement(pair, (first, second))


def judged_pair(names: tuple[str, str], judgements: Sequence[Judgement]) -> JudgedPair:
    """Return preference share with interval, consistency under exchange, and the share of the
    first response among decided answers.
    """
    share, limits = preference(
        [one.pair for one in judgements], [SCORES[one.choice] for one in judgements]
    )
    asked = [one for one in judgements if one.shown is not None]
    counts = Counter(choice for one in asked for choice in one.shown or ())
    decided = counts["a"] + counts["b"]
    return JudgedPair(
        *names,
        items=len(judgements),
        equal=len(judgements) - len(asked),
        runs=len({one.pair.run for one in judgements}),
        dialogues=len({one.pair.dialogue for one in judgements}),
        chosen_a=sum(one.choice == "a" for one in judgements),
        chosen_b=sum(one.choice == "b" for one in judgements),
        share=share,
        interval=None if limits is None else tuple(limits),
        consistency=sum(one.is_consistent for one in asked) / len(asked) if asked else None,
        first=counts["a"] / decided if decided else None,
    )
