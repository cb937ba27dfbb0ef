"""The synthetic corpus: tasks whose answers are in their questions, at places that are known."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from random import Random

from dialog.config.components import hint
from dialog.data.dialogue import SPLITS, Copy, Dialogue, Turn
from dialog.errors import UserError

VERSION = "1"
"""Raised whenever a change of the generator changes a dialogue."""

TASKS = ("reverse", "copy", "sort", "recall", "rare")

WORDS = [a + b + c + d for a in "bdklmnrstv" for b in "aeiou" for c in "bdklmnrstv" for d in "aeiou"]
"""In alphabetical order."""

ASK = "?"
MARK = ">"
TRIES = 10_000
"""Draws after which none is expected that belongs to the split."""

_BUCKETS = ("train",) * 8 + ("validation", "test")
_STRIDE = 1009  # neighbours in number are no neighbours in the alphabet


class Synthetic:
    """One turn of words, and one that repeats some of them: `> bela tumo` is answered, reversed, by `> tumo bela`.

    The task decides which, and with it which mechanism can learn them; `copies` tell where each word comes from.

    - `reverse` and `copy` of random symbols: any attention; a fixed vector while they are few.
    - `sort` of different symbols into alphabetical order: a pure pointer too (Vinyals et al. 2015).
    - `recall` of the value after a key: values, all keys among them, `?` and one of the keys, answered by the value
      that followed it (`> value key value value key value ? key`): where they are many, attention but no fixed vector.
    - `rare`: values, and a `?` before the one that the response repeats (`> value ? value value`). They may be so many
      that training asks for each hardly ever; for every tenth it never does, and the test asks for those alone: a head
      that copies (See et al. 2017).

    Words follow a mark, so the space before them belongs to their token wherever they stand, and a tokenizer with room
    for it has one token for each word that training shows twice. The split of a dialogue is a function of its words, so
    no two splits share one; within a split one of few words may come again. Dialogue i of a split depends on the
    settings, split and i alone.

    Args:
        task: one of the above.
        size: training dialogues, at least 1; validation and test hold a tenth of it each, at least one.
        lengths: the fewest and the most symbols of a context, or values where the task is recall or rare.
        test_lengths: the same for the test split, if it shall be of other lengths than those seen.
        symbols: how many different symbols, or keys for recall, there are.
        values: how many different values there are.
        seed: another seed, another corpus.

    Raises:
        UserError: an unknown task, or numbers that make no sense.
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
                f"corpus synthetic: size is {size}, symbols {symbols}, values {values}; set each to 1 or more, "
                f"and symbols and values to {len(WORDS)} in all or fewer"
            )
        self.task, self.size, self.symbols, self.values, self.seed = task, size, symbols, values, seed
        self.lengths = {split: tuple(lengths) for split in SPLITS}
        if test_lengths is not None:
            self.lengths["test"] = tuple(test_lengths)
        most = {"sort": symbols, "rare": values}.get(task, len(WORDS))
        for chosen in self.lengths.values():
            if len(chosen) != 2 or not 1 <= chosen[0] <= chosen[1] <= most:
                raise UserError(
                    f"corpus synthetic: lengths are {list(chosen)}; give the fewest and the most, from 1 to {most}"
                )

    def dialogues(self, split: str) -> Iterator[Dialogue]:
        """Yield the dialogues of a split one by one; nothing is kept of those before."""
        sizes = dict(zip(SPLITS, (self.size, *2 * (max(self.size // 10, 1),)), strict=True))
        return (self._dialogue(split, index) for index in range(sizes[split]))

    def fingerprint(self) -> Mapping[str, str]:
        """Settings and generator version, which together determine every dialogue."""
        return {"generator": f"synthetic {VERSION}", **{name: str(value) for name, value in vars(self).items()}}

    def _dialogue(self, split: str, index: int) -> Dialogue:
        random = Random(f"{self.seed} {split} {index}")
        low, high = self.lengths[split]
        held_back = {_word(self.symbols + value) for value in range(0, self.values, 10) if self.task == "rare"}
        for _ in range(TRIES):
            words, places = self._exchange(random, self._length(random, low, high))
            text, starts = _say(words)
            if _split(text) == split and (words[places[0]] in held_back) == (split == "test" and bool(held_back)):
                response, at = _say([words[place] for place in places])
                spans = zip(at, places, strict=True)
                copies = (Copy(start, start + len(words[place]), 0, starts[place]) for start, place in spans)
                turns = (Turn("A", text), Turn("B", response, tuple(copies)))
                return Dialogue(f"{split}-{index}", turns, {"task": self.task})
        raise UserError(f"corpus synthetic: {split} finds no dialogue; set other lengths, or more symbols and values")

    def _length(self, random: Random, low: int, high: int) -> int:
        """Each length is as frequent as any other; for recall each doubling is, so that the short teach the long."""
        if self.task == "recall":
            return int(low * ((high + 1) / low) ** random.random())
        return low + _below(random, high - low + 1)

    def _exchange(self, random: Random, length: int) -> tuple[list[str], list[int]]:
        """The words of a context, and the places in it that the response repeats."""
        if self.task == "rare":
            words = [_word(self.symbols + value) for value in _different(random, length, self.values)]
            place = _below(random, length)
            return [*words[:place], ASK, *words[place:]], [place + 1]
        if self.task == "recall":
            words = [_word(self.symbols + _below(random, self.values)) for _ in range(length)]
            keys = [_word(key) for key in _different(random, min(length, self.symbols), self.symbols)]
            before = sorted(_different(random, len(keys), length), reverse=True)  # so that none moves another
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
    return int(random.random() * limit)  # of Random, only this method is the same in every Python


def _different(random: Random, count: int, limit: int) -> list[int]:
    """So many different numbers below a limit, in random order."""
    numbers = list(range(limit))
    for place in range(count):
        other = place + _below(random, limit - place)
        numbers[place], numbers[other] = numbers[other], numbers[place]
    return numbers[:count]


def _say(words: Sequence[str]) -> tuple[str, list[int]]:
    """The words after the mark, and the character at which each begins."""
    lengths = (1 + len(word) for word in words)
    return " ".join([MARK, *words]), list(accumulate(lengths, initial=len(MARK) + 1))[:-1]
