"""The synthetic corpus: tasks whose responses copy words of the context, with known alignments."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from random import Random

from dialog.config.components import hint
from dialog.data.dialogue import SPLITS, Copy, Dialogue, Turn
from dialog.errors import UserError

VERSION = "1"
"""Increased when a change of the generator changes a dialogue."""

TASKS = ("reverse", "copy", "sort", "recall", "rare")

WORDS = [
    a + b + c + d for a in "bdklmnrstv" for b in "aeiou" for c in "bdklmnrstv" for d in "aeiou"
]
"""2,500 words in alphabetical order."""

ASK = "?"
MARK = ">"
TRIES = 10_000
"""Most draws for one dialogue; if none falls into the split, the settings leave it empty."""

_BUCKETS = ("train",) * 8 + ("validation", "test")
_STRIDE = 1009  # consecutive numbers give words far apart in the alphabet


class SyntheticTasks:
    """Generate pairs of turns in which the second copies words of the first: `> bela tumo`,
    reversed, `> tumo bela`.

    Each task tests a mechanism. `copies` give the source of each word of the response.

    - `reverse` and `copy` of random symbols: any attention learns them, a fixed vector only few
      symbols.
    - `sort` of different symbols into alphabetical order: a pure pointer learns it too (Vinyals
      et al. 2015).
    - `recall` of the value after a key. The context holds values, all keys among them, `?` and a
      key; the response is the value after that key (`> value key value value key value ? key`).
      With many values attention learns it, a fixed vector does not.
    - `rare`: the response is the value after `?` (`> value ? value value`). With many values
      training asks for each only a few times; it never asks for every tenth, and the test asks only
      for those. A copying head learns it (See et al. 2017).

    Words follow a mark, so the space before a word always belongs to its token, and a tokenizer
    with enough entries has one token for each word that occurs twice in training. The split of a
    dialogue is a function of its words, so no two splits share a dialogue; within a split, short
    dialogues may repeat. Dialogue i of a split depends only on i, the split and the settings other
    than `size`.

    Args:
        task: One of the above.
        size: Training dialogues, at least 1; validation and test each have a tenth as many, at
            least one.
        lengths: Fewest and most symbols in a context; for recall and rare, values.
        test_lengths: The same for the test split; null takes `lengths`.
        symbols: Number of different symbols; for recall, of keys.
        values: Number of different values.
        seed: Seed of the generator.

    Raises:
        UserError: an unknown task, or a number out of range.
    """

    def __init__(
        self,
        *,
        task: str = "reverse",
        size: int = 2000,
        lengths: Sequence[int] = (4, 12),
        test_lengths: Sequence[int] | None = None,
        symbols: int = 26,
        values: int = 100,
        seed: int = 0,
    ) -> None:
        if task not in TASKS:
            raise UserError(f"corpus synthetic: unknown task {task!r}{hint(task, TASKS)}")
        if min(size, symbols, values) < 1 or symbols + values > len(WORDS):
            raise UserError(
                f"corpus synthetic: size is {size}, symbols {symbols}, values {values}; set each to"
                f" 1 or more, and symbols + values to at most {len(WORDS)}"
            )
        self.task = task
        self.size = size
        self.symbols = symbols
        self.values = values
        self.seed = seed
        self.lengths = {split: tuple(lengths) for split in SPLITS}
        if test_lengths is not None:
            self.lengths["test"] = tuple(test_lengths)
        most = {"sort": symbols, "rare": values}.get(task, len(WORDS))
        for pair in self.lengths.values():
            if len(pair) != 2 or not 1 <= pair[0] <= pair[1] <= most:
                raise UserError(
                    f"corpus synthetic: lengths are {list(pair)}; give the fewest and the most,"
                    f" from 1 to {most}"
                )

    def dialogues(self, split: str) -> Iterator[Dialogue]:
        """Yield the dialogues of a split; earlier ones are not kept in memory."""
        sizes = dict(zip(SPLITS, (self.size, *2 * (max(self.size // 10, 1),)), strict=True))
        return (self._dialogue(split, index) for index in range(sizes[split]))

    def fingerprint(self) -> Mapping[str, str]:
        """Return the settings and the generator's version, which determine every dialogue."""
        return {
            "generator": f"synthetic {VERSION}",
            **{name: str(value) for name, value in vars(self).items()},
        }

    def _dialogue(self, split: str, index: int) -> Dialogue:
        random = Random(f"{self.seed} {split} {index}")
        low, high = self.lengths[split]
        held_back = {
            _word(self.symbols + value)
            for value in range(0, self.values, 10)
            if self.task == "rare"
        }
        for _ in range(TRIES):
            words, places = self._exchange(random, self._length(random, low, high))
            text, starts = _turn(words)
            if _split(text) == split and (words[places[0]] in held_back) == (
                split == "test" and bool(held_back)
            ):
                response, offsets = _turn([words[place] for place in places])
                pairs = zip(offsets, places, strict=True)
                copies = (
                    Copy(start, start + len(words[place]), 0, starts[place])
                    for start, place in pairs
                )
                turns = (Turn("A", text), Turn("B", response, tuple(copies)))
                return Dialogue(f"{split}-{index}", turns, {"task": self.task})
        raise UserError(
            f"corpus synthetic: no {split} dialogue in {TRIES:,} draws; set other lengths, or more"
            " symbols and values"
        )

    def _length(self, random: Random, low: int, high: int) -> int:
        """Draw a length uniformly; for recall log-uniformly, because short contexts are learnt
        first.
        """
        if self.task == "recall":
            return int(low * ((high + 1) / low) ** random.random())
        return low + _below(random, high - low + 1)

    def _exchange(self, random: Random, length: int) -> tuple[list[str], list[int]]:
        """Draw the words of a context, and the indices of those that the response repeats."""
        if self.task == "rare":
            words = [
                _word(self.symbols + value) for value in _different(random, length, self.values)
            ]
            place = _below(random, length)
            return [*words[:place], ASK, *words[place:]], [place + 1]
        if self.task == "recall":
            words = [_word(self.symbols + _below(random, self.values)) for _ in range(length)]
            keys = [
                _word(key) for key in _different(random, min(length, self.symbols), self.symbols)
            ]
            before = sorted(_different(random, len(keys), length), reverse=True)  # the last first
            for place, key in zip(before, keys, strict=True):
                words.insert(place, key)
            key = keys[_below(random, len(keys))]
            return [*words, ASK, key], [words.index(key) + 1]
        if self.task == "sort":
            words = [_word(symbol) for symbol in _different(random, length, self.symbols)]
            return words, sorted(range(length), key=lambda place: words[place])
        words = [_word(_below(random, self.symbols)) for _ in range(length)]
        return words, list(range(length))[:: -1 if self.task == "reverse" else 1]


def _word(number: int) -> str:
    return WORDS[number * _STRIDE % len(WORDS)]


def _split(text: str) -> str:
    return _BUCKETS[zlib.crc32(text.encode()) % len(_BUCKETS)]


def _below(random: Random, limit: int) -> int:
    return int(random.random() * limit)  # Random.random alone is equal in all Python versions


def _different(random: Random, count: int, limit: int) -> list[int]:
    """Draw `count` different numbers below `limit`, in random order."""
    numbers = list(range(limit))
    for place in range(count):
        other = place + _below(random, limit - place)
        numbers[place], numbers[other] = numbers[other], numbers[place]
    return numbers[:count]


def _turn(words: Sequence[str]) -> tuple[str, list[int]]:
    """Return the text, the mark and the words, and the character at which each word begins."""
    lengths = (1 + len(word) for word in words)
    return " ".join([MARK, *words]), list(accumulate(lengths, initial=len(MARK) + 1))[:-1]
