"""Draw the lines of a built-in dialogue, each with the values that its slots have at that point."""

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
"""Questions in a dialogue, each followed by its answer."""

CORRECTIONS = 2
"""Most corrections of one fact; every kind of fact has enough values for them."""

Option = TypeVar("Option")
_SLOT = re.compile(r"\{(\w+)\}")


class Line(NamedTuple):
    """A line with its slots, and the slots' values at this point of the dialogue."""

    words: str
    values: Mapping[str, str]


class Interlude(NamedTuple):
    """Settings of the exchanges between opening and questions; see `BuiltinDialogues`."""

    memory: int
    distractors: int
    corrections: float


def write(scenario: Scenario, interlude: Interlude, random: Random) -> list[Line]:
    """Draw all lines of a dialogue: the opening, the interlude, and the questions with their
    answers.
    """
    values = _facts(scenario, random)
    lines = [Line(draw(random, phrasings), values) for phrasings in scenario.opening]
    start = ""
    if any(interlude) and (between := _between(scenario, interlude, values, random)):
        lines += between
        values = dict(between[-1].values)
        start = f"{scenario.back} "
    used: set[str] = set()
    for _ in range(QUESTIONS):
        question, answer = draw(
            random, [pair for pair in scenario.questions if used.isdisjoint(slots(pair[1]))]
        )
        start = f"{draw(random, REACTIONS)} " if used else start
        lines += Line(start + question, values), Line(answer, values)
        used.update(slots(question), slots(answer))
    return lines


@cache
def slots(words: str) -> tuple[str, ...]:
    """Return the names of a line's slots, in order."""
    return tuple(_SLOT.findall(words))


def draw(random: Random, options: Sequence[Option]) -> Option:
    """Draw one of the options, all equally likely."""
    # Random.random alone is equal in all Python versions
    return options[int(random.random() * len(options))]


def _facts(scenario: Scenario, random: Random) -> dict[str, str]:
    """Draw a value for each slot of the opening, all different (a table for six is not at six)."""
    values: dict[str, str] = {}
    used: set[str] = set()
    for phrasings in scenario.opening:
        for slot in slots(phrasings[0]):
            values[slot] = _unused(slot, used, random)
    return values


def _unused(slot: str, used: set[str], random: Random) -> str:
    """Draw a value that is not in `used`, and add it."""
    options = VALUES[slot.rstrip("23")]
    while (value := draw(random, options)) in used:
        pass
    used.add(value)
    return value


def _between(
    scenario: Scenario, interlude: Interlude, facts: Mapping[str, str], random: Random
) -> list[Line]:
    """Draw the exchanges between opening and questions, in random order.

    Corrections are drawn before the asides, which use no value that a fact has at any point.
    """
    used = set(facts.values())
    exchanges = _corrections(scenario, interlude.corrections, used, random)
    exchanges += _asides(scenario, interlude.distractors, used, random)
    exchanges += [(exchange, {}) for exchange in _deal(random, SMALL_TALK, interlude.memory)]
    lines: list[Line] = []
    values = facts
    for exchange, changes in _deal(random, exchanges, len(exchanges)):
        values = {**values, **changes}
        lines += [Line(words, values) for words in exchange]
    return lines


def _corrections(
    scenario: Scenario, chance: float, used: set[str], random: Random
) -> list[tuple[Exchange, dict[str, str]]]:
    """Draw exchanges that give a fact a new value; a correction may be corrected once more."""
    exchanges: list[tuple[Exchange, dict[str, str]]] = []
    for asker, lines in zip((True, False), scenario.corrections, strict=True):
        for line in lines:
            for _ in range(CORRECTIONS):
                if random.random() >= chance:
                    break
                words = f"{draw(random, SORRY)} {line}"
                exchange = (
                    (words, draw(random, CONSENT)) if asker else (draw(random, CHECKS), words)
                )
                exchanges.append(
                    (exchange, {slot: _unused(slot, used, random) for slot in slots(line)})
                )
    return exchanges


def _asides(
    scenario: Scenario, count: int, used: set[str], random: Random
) -> list[tuple[Exchange, dict[str, str]]]:
    """Draw exchanges about other people; a person occurs again only after all others."""
    people = _deal(random, VALUES["person"], count)
    exchanges: list[tuple[Exchange, dict[str, str]]] = []
    for exchange, person in zip(_deal(random, scenario.asides, count), people, strict=True):
        taken = set(used)  # two people may share a fact
        names = [slot for words in exchange for slot in slots(words) if slot != "person"]
        exchanges.append(
            (exchange, {"person": person, **{slot: _unused(slot, taken, random) for slot in names}})
        )
    return exchanges


def _deal(random: Random, options: Sequence[Option], count: int) -> list[Option]:
    """Draw `count` options in random order; an option occurs again only after all others."""
    dealt: list[Option] = []
    rest: list[Option] = []
    for _ in range(count):
        rest = rest or list(options)
        dealt.append(rest.pop(int(random.random() * len(rest))))
    return dealt
