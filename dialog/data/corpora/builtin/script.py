"""The lines of a built-in dialogue, one after the other, and the value that each slot has when it is said."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from random import Random
from typing import NamedTuple, TypeVar

from dialog.data.corpora.builtin.scenarios import (
    CHECKS,
    CONSENT,
    REACTIONS,
    SMALL_TALK,
    SORRY,
    VALUES,
    Exchange,
    Scenario,
)

QUESTIONS = 2
"""Questions of a dialogue, each with its answer."""

CORRECTIONS = 2
"""How often a fact is corrected at most: each kind of fact has values enough for that."""

Option = TypeVar("Option")
_SLOT = re.compile(r"\{(\w+)\}")


class Line(NamedTuple):
    """A line with its slots, and the values that they have at this point of the dialogue."""

    words: str
    values: Mapping[str, str]


class Interlude(NamedTuple):
    """What is said between opening and questions: exchanges of small talk, about others, and chance of corrections."""

    memory: int
    distractors: int
    corrections: float


def write(scenario: Scenario, interlude: Interlude, random: Random) -> list[Line]:
    """Draw all lines of a dialogue: the opening, what is said then, and the questions with their answers."""
    values = _facts(scenario, random)
    lines = [Line(draw(random, phrasings), values) for phrasings in scenario.opening]
    start = ""
    if any(interlude) and (between := _between(scenario, interlude, values, random)):
        lines += between
        values = dict(between[-1].values)
        start = f"{scenario.back} "
    repeated: set[str] = set()
    for _ in range(QUESTIONS):
        question, answer = draw(random, [each for each in scenario.questions if repeated.isdisjoint(slots(each[1]))])
        start = f"{draw(random, REACTIONS)} " if repeated else start
        lines += Line(start + question, values), Line(answer, values)
        repeated.update(slots(question), slots(answer))
    return lines


@cache
def slots(words: str) -> tuple[str, ...]:
    """The names of a line's slots, in their order."""
    return tuple(_SLOT.findall(words))


def draw(random: Random, options: Sequence[Option]) -> Option:
    """One of the options, each as likely as any other."""
    return options[int(random.random() * len(options))]  # of Random, only this method is the same in every Python


def _facts(scenario: Scenario, random: Random) -> dict[str, str]:
    """Draw a value for each slot of the opening so that no two are the same (a table for six is not at six)."""
    values: dict[str, str] = {}
    used: set[str] = set()
    for phrasings in scenario.opening:
        for slot in slots(phrasings[0]):
            values[slot] = _unused(slot, used, random)
    return values


def _unused(slot: str, used: set[str], random: Random) -> str:
    """Draw a value that is not used, and note it as used."""
    options = VALUES[slot.rstrip("23")]
    while (value := draw(random, options)) in used:
        pass
    used.add(value)
    return value


def _between(scenario: Scenario, interlude: Interlude, facts: Mapping[str, str], random: Random) -> list[Line]:
    """Draw the exchanges between opening and questions, in random order.

    Corrections are drawn before the facts about others, which are none that ever was true or will be.
    """
    used = set(facts.values())
    exchanges = _corrections(scenario, interlude.corrections, used, random)
    exchanges += _asides(scenario, interlude.distractors, used, random)
    exchanges += [(each, {}) for each in _deal(random, SMALL_TALK, interlude.memory)]
    lines: list[Line] = []
    values = facts
    for exchange, changes in _deal(random, exchanges, len(exchanges)):
        values = {**values, **changes}
        lines += [Line(words, values) for words in exchange]
    return lines


def _corrections(
    scenario: Scenario, chance: float, used: set[str], random: Random
) -> list[tuple[Exchange, dict[str, str]]]:
    """Draw the exchanges in which a fact gets a new value; a correction may be corrected again."""
    exchanges: list[tuple[Exchange, dict[str, str]]] = []
    for asker, lines in zip((True, False), scenario.corrections, strict=True):
        for line in lines:
            for _ in range(CORRECTIONS):
                if random.random() >= chance:
                    break
                words = f"{draw(random, SORRY)} {line}"
                exchange = (words, draw(random, CONSENT)) if asker else (draw(random, CHECKS), words)
                exchanges.append((exchange, {slot: _unused(slot, used, random) for slot in slots(line)}))
    return exchanges


def _asides(scenario: Scenario, count: int, used: set[str], random: Random) -> list[tuple[Exchange, dict[str, str]]]:
    """Draw the exchanges about others, each about another person while there are some."""
    people = _deal(random, VALUES["person"], count)
    exchanges: list[tuple[Exchange, dict[str, str]]] = []
    for exchange, person in zip(_deal(random, scenario.asides, count), people, strict=True):
        taken = set(used)  # others may share a fact
        said = [slot for words in exchange for slot in slots(words) if slot != "person"]
        exchanges.append((exchange, {"person": person, **{slot: _unused(slot, taken, random) for slot in said}}))
    return exchanges


def _deal(random: Random, options: Sequence[Option], count: int) -> list[Option]:
    """So many of the options in random order, none again before each was there."""
    dealt: list[Option] = []
    rest: list[Option] = []
    for _ in range(count):
        rest = rest or list(options)
        dealt.append(rest.pop(int(random.random() * len(rest))))
    return dealt
