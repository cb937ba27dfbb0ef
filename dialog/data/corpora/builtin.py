"""The built-in corpus: dialogues of our own making that can be followed only with an eye on what was said before."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from random import Random
from typing import TypeVar

from dialog.components import lookup
from dialog.data.corpora.builtin_lines import REACTIONS, SCENARIOS, VALUES, Scenario
from dialog.data.dialogue import SPLITS, Copy, Dialogue, Turn
from dialog.errors import UserError

VERSION = "1"
"""Raised whenever a change of generator or lines changes a dialogue."""

QUESTIONS = 2
"""Questions of a dialogue, each with its answer."""

Option = TypeVar("Option")
_SLOT = re.compile(r"\{(\w+)\}")
_BUCKETS = ("train",) * 8 + ("validation", "test")


class Builtin:
    """Short English task and small-talk dialogues in which the later turns ask for what earlier ones said.

    A dialogue has 6 or 7 turns of two speakers: an opening that states facts (a name, a time, a dish, a count, ...),
    then two questions, each followed by its answer. An answer is a function of the 6 turns before it, so the right
    reply is unique; its `copies` tell where its facts were stated, each exactly once before it.

    The split of a dialogue is a function of its words, so no two splits share one, whatever their seeds and sizes;
    within a split a dialogue may, rarely, come again. Dialogue i of a split depends on seed, split and i alone.

    Args:
        size: training dialogues, at least 1; validation and test hold a tenth of it each, at least one.
        seed: another seed, another corpus.
        scenarios: what the dialogues are about, all of `SCENARIOS` by default; fewer are learnt sooner.

    Raises:
        UserError: if `size` is below 1, or a scenario is not there.
    """

    def __init__(self, *, size: int = 2000, seed: int = 0, scenarios: Sequence[str] | None = None) -> None:
        if size < 1:
            raise UserError(f"corpus builtin: size is {size}; set it to 1 or more")
        self.size = size
        self.seed = seed
        self.scenarios = tuple(SCENARIOS if scenarios is None else scenarios)
        for name in self.scenarios or [""]:
            lookup(SCENARIOS, name)

    def dialogues(self, split: str) -> Iterator[Dialogue]:
        """Yield the dialogues of a split one by one; nothing is kept of those before."""
        sizes = dict(zip(SPLITS, (self.size, *2 * (max(self.size // 10, 1),)), strict=True))
        return (self._dialogue(split, index) for index in range(sizes[split]))

    def fingerprint(self) -> Mapping[str, str]:
        """Settings and generator version, which together determine every dialogue."""
        settings = {"size": str(self.size), "seed": str(self.seed), "scenarios": " ".join(self.scenarios)}
        return {"generator": f"builtin {VERSION}", **settings}

    def _dialogue(self, split: str, index: int) -> Dialogue:
        random = Random(f"{self.seed} {split} {index}")
        while True:
            name = _draw(random, self.scenarios)
            turns = _converse(SCENARIOS[name], random)
            if _split(turns) == split:
                return Dialogue(f"{split}-{index}", turns, {"scenario": name})


def _split(turns: Sequence[Turn]) -> str:
    words = re.findall(r"\w+", " ".join(turn.text for turn in turns).lower())
    return _BUCKETS[zlib.crc32(" ".join(words).encode()) % len(_BUCKETS)]


def _draw(random: Random, options: Sequence[Option]) -> Option:
    return options[int(random.random() * len(options))]  # of Random, only this method is the same in every Python


def _converse(scenario: Scenario, random: Random) -> tuple[Turn, ...]:
    values = _values(scenario, random)
    turns: list[Turn] = []
    stated: dict[str, tuple[int, int]] = {}  # slot -> turn and character of its first statement

    def say(line: str, *, answer: bool = False) -> None:
        text, places = _fill(line, values)
        copies = [Copy(start, start + len(values[slot]), *stated[slot]) for slot, start in places.items() if answer]
        for slot, start in places.items():
            stated.setdefault(slot, (len(turns), start))
        turns.append(Turn(scenario.speakers[len(turns) % 2], text, tuple(copies)))

    for phrasings in scenario.opening:
        say(_draw(random, phrasings))
    repeated: set[str] = set()
    for number in range(QUESTIONS):
        fresh = stated.keys() - repeated
        question, answer = _draw(random, [pair for pair in scenario.questions if fresh.issuperset(_slots(pair[1]))])
        say(f"{_draw(random, REACTIONS)} {question}" if number else question)
        say(answer, answer=True)
        repeated.update(_slots(question), _slots(answer))
    return tuple(turns)


def _values(scenario: Scenario, random: Random) -> dict[str, str]:
    """Draw a value for each slot so that no two share a word (a table for six is not at six)."""
    values: dict[str, str] = {}
    used: set[str] = set()
    for slot in dict.fromkeys(slot for phrasings in scenario.opening for slot in _slots(phrasings[0])):
        value = _draw(random, VALUES[slot.rstrip("2")])
        while not used.isdisjoint(value.split()):
            value = _draw(random, VALUES[slot.rstrip("2")])
        values[slot] = value
        used.update(value.split())
    return values


@cache
def _pieces(line: str) -> tuple[str, ...]:
    """Words and slots of a line by turns: words, slot, words, ..., words."""
    return tuple(_SLOT.split(line))


def _slots(line: str) -> tuple[str, ...]:
    return _pieces(line)[1::2]


def _fill(line: str, values: Mapping[str, str]) -> tuple[str, dict[str, int]]:
    """The line with its slots filled, and the character at which each slot's value begins."""
    text = ""
    places: dict[str, int] = {}
    for number, piece in enumerate(_pieces(line)):
        if number % 2:
            places[piece] = len(text)
        text += values[piece] if number % 2 else piece
    return text, places
