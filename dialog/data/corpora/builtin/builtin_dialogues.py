"""The built-in corpus: generated dialogues whose answers depend on earlier turns."""

from __future__ import annotations

import re
import string
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import cycle
from random import Random
from typing import NamedTuple, TypeVar

from dialog.config.components import lookup
from dialog.data.corpora.builtin.scenarios import (
    CHECKS,
    CONSENT,
    REACTIONS,
    SCENARIOS,
    SMALL_TALK,
    SORRY,
    VALUES,
    Exchange,
    Scenario,
)
from dialog.data.dialogue import SPLITS, Copy, Dialogue, Turn
from dialog.errors import UserError

VERSION = "3"
"""Increased when a change of the generator or its texts changes a dialogue."""

_BUCKETS = ("train",) * 3 + ("validation", "test")
_PUNCTUATION = str.maketrans("", "", string.punctuation)

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

    @property
    def text(self) -> str:
        """The line with the values in its slots."""
        return self.words.format_map(self.values)


class Interlude(NamedTuple):
    """Settings of the exchanges between opening and questions; see `BuiltinDialogues`."""

    memory: int
    distractors: int
    corrections: float


class BuiltinDialogues:
    """Generate short English task and small-talk dialogues whose later turns ask for facts of
    earlier ones.

    Two speakers alternate: an opening of 2 or 3 turns states facts (a name, a time, a dish, a
    count, ...); two questions follow, each with its answer, which states two facts. An answer is a
    function of the turns before it (of 6 turns, or more with the settings below), so the correct
    reply is unique. Its `copies` point to the turns that state its facts.

    `memory`, `distractors` and `corrections` make the task harder: they add exchanges of two turns
    between opening and questions, in random order. No value of a fact, corrected or not, is stated
    about another person. An answer repeats the last value of its fact, and nothing else before it
    has that value.

    Splits combine facts in different ways, so that a model cannot answer from memory: no
    two splits share the last turn of an opening, a question with its answer, or an answer with the
    question after it, for any seeds, sizes and settings. Which split a combination belongs to is a
    function of its words. Each fact and wording alone occurs in all splits, as do the exchanges
    that the settings above add. Within a split dialogues may repeat: 2 % of a million do, 0.07 %
    with `memory` 1. Dialogue i of a split depends only on i, the split and the settings other than
    `size`.

    Args:
        size: Training dialogues, at least 1; validation and test each have a tenth as many, at
            least one.
        seed: Seed of the generator.
        scenarios: Subjects, from `SCENARIOS`; null takes all. Fewer are learnt faster.
        memory: Exchanges of small talk, which put the facts further back.
        distractors: Exchanges that state facts of the same kinds about others ("My boss booked six
            nights.").
        corrections: Probability that a fact is corrected ("Sorry, I booked four nights."), and that
            the correction is corrected once more.

    Raises:
        UserError: a number is out of range, or a scenario is unknown.
    """

    def __init__(
        self,
        *,
        size: int = 2000,
        seed: int = 0,
        scenarios: Sequence[str] | None = None,
        memory: int = 0,
        distractors: int = 0,
        corrections: float = 0.0,
    ) -> None:
        if size < 1:
            raise UserError(f"corpus builtin: size is {size}; set it to 1 or more")
        if min(memory, distractors) < 0 or not 0 <= corrections <= 1:
            raise UserError(
                f"corpus builtin: memory is {memory}, distractors {distractors}, corrections"
                f" {corrections}; set memory and distractors to 0 or more, corrections to a"
                " probability from 0 to 1"
            )
        self.size = size
        self.seed = seed
        self.scenarios = tuple(SCENARIOS if scenarios is None else scenarios)
        self.interlude = Interlude(memory, distractors, corrections)
        for name in self.scenarios or [""]:
            lookup(SCENARIOS, name, "scenario")

    def dialogues(self, split: str) -> Iterator[Dialogue]:
        """Yield the dialogues of a split; earlier ones are not kept in memory."""
        sizes = dict(zip(SPLITS, (self.size, *2 * (max(self.size // 10, 1),)), strict=True))
        return (self._dialogue(split, index) for index in range(sizes[split]))

    def fingerprint(self) -> Mapping[str, str]:
        """Return the settings and the generator's version; settings that add no turn are left
        out.
        """
        settings = {
            "size": str(self.size),
            "seed": str(self.seed),
            "scenarios": " ".join(self.scenarios),
        }
        added = {name: str(value) for name, value in self.interlude._asdict().items() if value}
        return {"generator": f"builtin {VERSION}", **settings, **added}

    def _dialogue(self, split: str, index: int) -> Dialogue:
        random = Random(f"{self.seed} {split} {index}")
        name = draw(random, self.scenarios)
        lines = None
        while lines is None:
            lines = write(SCENARIOS[name], self.interlude, split, random)
        texts = [line.text for line in lines]
        return Dialogue(
            f"{split}-{index}", _turns(SCENARIOS[name].speakers, lines, texts), {"scenario": name}
        )


def belongs_to(split: str, *texts: str) -> bool:
    """Return whether a combination of texts is one of this split: 3 of 5 are of the training
    split.
    """
    words = " ".join(texts).lower().translate(_PUNCTUATION)
    return _BUCKETS[zlib.crc32(words.encode()) % len(_BUCKETS)] == split


def _turns(
    speakers: Sequence[str], lines: Sequence[Line], texts: Sequence[str]
) -> tuple[Turn, ...]:
    """Return the turns; every second line after the first question is an answer, with copies of
    earlier facts.
    """
    first = len(lines) - 2 * QUESTIONS
    copies: list[tuple[Copy, ...]] = [()] * len(lines)
    for number in range(first + 1, len(lines), 2):
        answer = lines[number]
        for slot in slots(answer.words):
            start = _offset(slot, answer)
            # the last line that states the value
            turn = max(place for place in range(first) if slot in slots(lines[place].words))
            stated = _offset(slot, lines[turn])
            copies[number] += (Copy(start, start + len(answer.values[slot]), turn, stated),)
    return tuple(map(Turn, cycle(speakers), texts, copies))


def _offset(slot: str, line: Line) -> int:
    """Return the character at which a slot's value begins."""
    return len(line.words.partition(f"{{{slot}}}")[0].format_map(line.values))


# ------------------------------------------------------------------ lines


def write(
    scenario: Scenario, interlude: Interlude, split: str, random: Random
) -> list[Line] | None:
    """Draw all lines of a dialogue of a split: the opening, the interlude, and the questions with
    their answers.

    None if the split has no combination with what was drawn first.
    """
    values: dict[str, str] = {}
    used: set[str] = set()  # all values differ: a table for six is not at six
    for phrasings in scenario.opening:
        for slot in slots(phrasings[0]):
            values[slot] = _unused(slot, used, random)
    lines = [Line(draw(random, phrasings), values) for phrasings in scenario.opening]
    if not belongs_to(split, lines[-1].text):
        return None
    starts = [""]
    if any(interlude) and (between := _between(scenario, interlude, values, random)):
        lines += between
        values = dict(between[-1].values)
        starts = [f"{scenario.back} "]
    before: tuple[str, ...] = ()
    asked: set[str] = set()
    for _ in range(QUESTIONS):
        own = [
            (question, answer)
            for question, answer in _questions(scenario, values, starts)
            if asked.isdisjoint(slots(answer.words))
            and (not before or belongs_to(split, *before, question.text))
            and belongs_to(split, question.text, answer.text)
        ]
        if not own:
            return None
        question, answer = draw(random, own)
        lines += question, answer
        before = (answer.text,)
        asked.update(slots(question.words), slots(answer.words))
        starts = [f"{reaction} " for reaction in REACTIONS]
    return lines


def _questions(
    scenario: Scenario, values: Mapping[str, str], starts: Sequence[str]
) -> Iterator[tuple[Line, Line]]:
    """Yield every question with its answer, behind each of the starts."""
    for question, answer in scenario.questions:
        for start in starts:
            yield Line(start + question, values), Line(answer, values)


@cache
def slots(words: str) -> tuple[str, ...]:
    """Return the names of a line's slots, in order."""
    return tuple(_SLOT.findall(words))


def draw(random: Random, options: Sequence[Option]) -> Option:
    """Draw one of the options, all equally likely."""
    # Random.random alone is equal in all Python versions
    return options[int(random.random() * len(options))]


def _unused(slot: str, used: set[str], random: Random) -> str:
    """Draw a value that is not in `used`, and add it."""
    options = VALUES[slot.rstrip("23")]
    while True:
        value = options[int(random.random() * len(options))]  # as `draw`
        if value not in used:
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
        values = {"person": person}
        for slot in slots(" ".join(exchange)):
            if slot != "person":
                values[slot] = _unused(slot, taken, random)
        exchanges.append((exchange, values))
    return exchanges


def _deal(random: Random, options: Sequence[Option], count: int) -> list[Option]:
    """Draw `count` options in random order; an option occurs again only after all others."""
    dealt: list[Option] = []
    rest: list[Option] = []
    for _ in range(count):
        rest = rest or list(options)
        dealt.append(rest.pop(int(random.random() * len(rest))))
    return dealt
