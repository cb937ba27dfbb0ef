"""The built-in corpus: dialogues of our own making that can be followed only with an eye on what was said before."""

from __future__ import annotations

import string
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from random import Random

from dialog.config.components import lookup
from dialog.data.corpora.builtin.lines import SCENARIOS
from dialog.data.corpora.builtin.script import QUESTIONS, Interlude, Line, draw, slots, write
from dialog.data.dialogue import SPLITS, Copy, Dialogue, Turn
from dialog.errors import UserError

VERSION = "1"
"""Raised whenever a change of generator or lines changes a dialogue."""

_BUCKETS = ("train",) * 8 + ("validation", "test")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Builtin:
    """Short English task and small-talk dialogues in which the later turns ask for what earlier ones said.

    Two speakers take turns: an opening of 2 or 3 turns states facts (a name, a time, a dish, a count, ...), then come
    two questions, each followed by its answer. An answer is a function of the turns before it (6 of them unless a
    setting adds more), so the right reply is unique; its `copies` tell where its facts were stated.

    `memory`, `distractors` and `corrections` make it harder: they add exchanges of two turns between opening and
    questions, in random order. No fact of the dialogue, corrected or not, is ever said of somebody else. An answer
    repeats what was said last of its fact, and nothing else before it has that value.

    The split of a dialogue is a function of its words, so no two splits share one, whatever their seeds, sizes and
    settings. Within a split a dialogue may come again: 2 % of a million do, 0.09 % with `memory` 1.
    Dialogue i of a split depends on the settings but size, split and i alone.

    Args:
        size: training dialogues, at least 1; validation and test hold a tenth of it each, at least one.
        seed: another seed, another corpus.
        scenarios: what the dialogues are about, all of `SCENARIOS` by default; fewer are learnt sooner.
        memory: exchanges of small talk, so that the facts lie further back.
        distractors: exchanges that state facts of the same kinds about somebody else ("My boss booked six nights.").
        corrections: the chance that a fact is corrected ("Sorry, I booked four nights."), and that this correction is,
            once more.

    Raises:
        UserError: if a number is out of its range, or a scenario is not there.
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
                f"corpus builtin: memory is {memory}, distractors {distractors}, corrections {corrections}; "
                "set memory and distractors to 0 or more, corrections to a chance from 0 to 1"
            )
        self.size = size
        self.seed = seed
        self.scenarios = tuple(SCENARIOS if scenarios is None else scenarios)
        self.interlude = Interlude(memory, distractors, corrections)
        for name in self.scenarios or [""]:
            lookup(SCENARIOS, name, "scenario")

    def dialogues(self, split: str) -> Iterator[Dialogue]:
        """Yield the dialogues of a split one by one; nothing is kept of those before."""
        sizes = dict(zip(SPLITS, (self.size, *2 * (max(self.size // 10, 1),)), strict=True))
        return (self._dialogue(split, index) for index in range(sizes[split]))

    def fingerprint(self) -> Mapping[str, str]:
        """Settings and generator version, which together determine every dialogue; what adds no turn is left out."""
        settings = {"size": str(self.size), "seed": str(self.seed), "scenarios": " ".join(self.scenarios)}
        added = {name: str(value) for name, value in self.interlude._asdict().items() if value}
        return {"generator": f"builtin {VERSION}", **settings, **added}

    def _dialogue(self, split: str, index: int) -> Dialogue:
        random = Random(f"{self.seed} {split} {index}")
        while True:
            name = draw(random, self.scenarios)
            lines = write(SCENARIOS[name], self.interlude, random)
            texts = [words.format_map(values) for words, values in lines]
            if _split(texts) == split:  # nine in ten are drawn in vain where the split is small: copies come after
                return Dialogue(f"{split}-{index}", _turns(SCENARIOS[name].speakers, lines, texts), {"scenario": name})


def _split(texts: Sequence[str]) -> str:
    words = " ".join(texts).lower().translate(_PUNCTUATION)
    return _BUCKETS[zlib.crc32(words.encode()) % len(_BUCKETS)]


def _turns(speakers: Sequence[str], lines: Sequence[Line], texts: Sequence[str]) -> tuple[Turn, ...]:
    """Each line's turn: all before the first question state facts, then every other is an answer that repeats some."""
    first = len(lines) - 2 * QUESTIONS
    copies: list[tuple[Copy, ...]] = [()] * len(lines)
    for number in range(first + 1, len(lines), 2):
        copies[number] = tuple(_copy(slot, lines[number], lines[:first]) for slot in slots(lines[number].words))
    return tuple(map(Turn, cycle(speakers), texts, copies))


def _copy(slot: str, answer: Line, told: Sequence[Line]) -> Copy:
    """Where an answer says a slot's value, and where of what was told it was said last."""
    start = _place(slot, answer)
    turn = max(number for number, line in enumerate(told) if slot in slots(line.words))
    return Copy(start, start + len(answer.values[slot]), turn, _place(slot, told[turn]))


def _place(slot: str, line: Line) -> int:
    """The character at which a slot's value begins."""
    return len(line.words.partition(f"{{{slot}}}")[0].format_map(line.values))
