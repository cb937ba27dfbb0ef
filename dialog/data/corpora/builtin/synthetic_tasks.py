"""The synthetic corpus: tasks whose answer is known, each of which tests a mechanism."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain, permutations, product
from random import Random
from typing import NamedTuple

from dialog.config.components import hint
from dialog.data.dialogue import SPLITS, Copy, Dialogue, Turn
from dialog.errors import UserError

VERSION = "1"
"""Increased when a change of the generator changes a dialogue."""

COPYING = ("reverse", "copy", "sort", "recall", "rare", "multi_recall", "selective_copy", "needle")
"""Tasks whose response copies words of the context."""

COUNTING = ("counting", "permutations")
"""Tasks whose response is the state after the last word."""

TASKS = (*COPYING, *COUNTING)
SEVERAL = ("multi_recall", "selective_copy")
"""Tasks with a number of words in the response of their own, ``answers``."""

SHORT_FIRST = ("recall", "multi_recall", *COUNTING)
"""Tasks that are learnt from short contexts first: their lengths are drawn log-uniformly."""

PERMUTATIONS = tuple(permutations(range(3)))
NOISE = 26
"""Number of different words that mean nothing."""

WORDS = ["".join(letters) for letters in product("bdklmnrstv", "aeiou", "bdklmnrstv", "aeiou")]
"""2,500 words in alphabetical order."""

ASK = "?"
MARK = ">"
LONGEST = 10_000
"""Most symbols of a context."""

TRIES = 10_000
"""Most draws for one dialogue; if none falls into the split, the settings leave it empty."""

_BUCKETS = ("train",) * 8 + ("validation", "test")
_STRIDE = 1009  # consecutive numbers give words far apart in the alphabet


class Exchange(NamedTuple):
    """Words of a context, words of the response, and the place in the context of each of these."""

    words: list[str]
    answer: list[str]
    places: Sequence[int] = ()


class SyntheticTasks:
    """Generate pairs of turns in which the second answers the first: `> bela tumo`, reversed,
    `> tumo bela`.

    Each task tests a mechanism. Where a response copies, `copies` give the source of each word.

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
    - `multi_recall` of `answers` keys, which are all different, and their values (`> key value key
      value ? key key`, answered by `> key value key value`). As in multi-query associative recall
      (Arora et al. 2023), each value is predicted right after its key. Attention learns it; a state
      of fixed size holds a limited number of pairs. The published generator draws noise among the
      keys, so that its answers are ambiguous; keys and values are disjoint here, and keys are
      asked for in random order.
    - `selective_copy` of the `answers` symbols among noise, in order (Gu & Dao 2023, section 4.1).
    - `needle`: the value after the only key, anywhere in noise (`> noise key value noise ? key`).
    - `counting`: the sum of the symbols, modulo their number; with two symbols it is parity. The
      response is one word, so the encoder has to keep the count: LSTMs do, at any length, and
      attention and linear recurrences with positive eigenvalues do not (Grazzi et al. 2024).
    - `permutations`: the product of elements of the group S3 (Merrill et al. 2024).

    Words follow a mark, so the space before a word always belongs to its token, and a tokenizer
    with enough entries has one token for each word that occurs twice in training. The split of a
    dialogue is a function of its words, so no two splits share a dialogue; within a split, short
    dialogues may repeat. Dialogue i of a split depends only on i, the split and the settings other
    than `size`.

    Args:
        task: One of the above.
        size: Training dialogues, at least 1; validation and test each have a tenth as many, at
            least one.
        lengths: Fewest and most symbols in a context; for recall and rare, values; for
            multi_recall, pairs; for needle, words of noise; for selective_copy, all words.
        test_lengths: The same for the test split; null takes `lengths`.
        symbols: Number of different symbols; for recall, multi_recall and needle, of keys; without
            effect on permutations.
        values: Number of different values.
        answers: Most keys asked for in multi_recall, and the words of a response of selective_copy.
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
        answers: int = 4,
        seed: int = 0,
    ) -> None:
        if task not in TASKS:
            raise UserError(f"corpus synthetic: unknown task {task!r}{hint(task, TASKS)}")
        words = len(WORDS) - NOISE
        if min(size, symbols, values, answers) < 1 or symbols + values > words:
            raise UserError(
                f"corpus synthetic: size is {size}, symbols {symbols}, values {values}, answers"
                f" {answers}; set each to 1 or more, and symbols + values to at most {words}"
            )
        self.task = task
        self.size = size
        self.symbols = symbols
        self.values = values
        self.answers = answers
        self.seed = seed
        self.lengths = {split: tuple(lengths) for split in SPLITS}
        if test_lengths is not None:
            self.lengths["test"] = tuple(test_lengths)
        least = answers if task == "selective_copy" else 1
        most = {"sort": symbols, "multi_recall": symbols, "rare": values}.get(task, LONGEST)
        for pair in self.lengths.values():
            if len(pair) != 2 or not least <= pair[0] <= pair[1] <= most:
                raise UserError(
                    f"corpus synthetic: lengths are {list(pair)}; give the fewest and the most,"
                    f" from {least} to {most}"
                )

    def dialogues(self, split: str) -> Iterator[Dialogue]:
        """Yield the dialogues of a split; earlier ones are not kept in memory."""
        sizes = dict(zip(SPLITS, (self.size, *2 * (max(self.size // 10, 1),)), strict=True))
        return (self._dialogue(split, index) for index in range(sizes[split]))

    def fingerprint(self) -> Mapping[str, str]:
        """Return the settings and the generator's version, which determine every dialogue."""
        settings = {name: str(value) for name, value in vars(self).items()}
        if self.task not in SEVERAL:
            del settings["answers"]
        return {"generator": f"synthetic {VERSION}", **settings}

    def _dialogue(self, split: str, index: int) -> Dialogue:
        random = Random(f"{self.seed} {split} {index}")
        low, high = self.lengths[split]
        held_back = {
            self._value(value) for value in range(0, self.values, 10) if self.task == "rare"
        }
        for _ in range(TRIES):
            exchange = self._exchange(random, self._length(random, low, high))
            text, starts = _turn(exchange.words)
            is_asked = (exchange.answer[0] in held_back) == (split == "test" and bool(held_back))
            if _split(text) != split or not is_asked:
                continue
            response, offsets = _turn(exchange.answer)
            copies = tuple(
                Copy(start, start + len(exchange.words[place]), 0, starts[place])
                for start, place in zip(offsets, exchange.places, strict=False)
            )
            turns = (Turn("A", text), Turn("B", response, copies, is_answer=True))
            return Dialogue(f"{split}-{index}", turns, {"task": self.task})
        raise UserError(
            f"corpus synthetic: no {split} dialogue in {TRIES:,} draws; set other lengths, or more"
            " symbols and values"
        )

    def _length(self, random: Random, low: int, high: int) -> int:
        if self.task in SHORT_FIRST:
            return int(low * ((high + 1) / low) ** random.random())
        return low + _below(random, high - low + 1)

    def _exchange(self, random: Random, length: int) -> Exchange:
        """Draw a context of a length, and its response."""
        match self.task:
            case "rare":
                return self._rare(random, length)
            case "recall":
                return self._recall(random, length)
            case "multi_recall":
                return self._multi_recall(random, length)
            case "selective_copy":
                return self._selective_copy(random, length)
            case "needle":
                return self._needle(random, length)
            case "counting":
                drawn = [_below(random, self.symbols) for _ in range(length)]
                return Exchange([*map(_word, drawn)], [_word(sum(drawn) % self.symbols)])
            case "permutations":
                return _product([_below(random, len(PERMUTATIONS)) for _ in range(length)])
            case "sort":
                words = [_word(symbol) for symbol in _different(random, length, self.symbols)]
                return _copied(words, sorted(range(length), key=lambda place: words[place]))
        words = [_word(_below(random, self.symbols)) for _ in range(length)]
        return _copied(words, list(range(length))[:: -1 if self.task == "reverse" else 1])

    def _rare(self, random: Random, length: int) -> Exchange:
        words = [self._value(value) for value in _different(random, length, self.values)]
        place = _below(random, length)
        return _copied([*words[:place], ASK, *words[place:]], [place + 1])

    def _recall(self, random: Random, length: int) -> Exchange:
        words = [self._value(_below(random, self.values)) for _ in range(length)]
        keys = [_word(key) for key in _different(random, min(length, self.symbols), self.symbols)]
        before = sorted(_different(random, len(keys), length), reverse=True)  # the last first
        for place, key in zip(before, keys, strict=True):
            words.insert(place, key)
        key = keys[_below(random, len(keys))]
        return _copied([*words, ASK, key], [words.index(key) + 1])

    def _multi_recall(self, random: Random, length: int) -> Exchange:
        keys = [_word(key) for key in _different(random, length, self.symbols)]
        pairs = {key: self._value(_below(random, self.values)) for key in keys}
        asked = [keys[key] for key in _different(random, min(self.answers, length), length)]
        words = [*chain.from_iterable(pairs.items()), ASK, *asked]
        question = 2 * length + 1
        places = ((question + turn, words.index(key) + 1) for turn, key in enumerate(asked))
        return _copied(words, [*chain.from_iterable(places)])

    def _selective_copy(self, random: Random, length: int) -> Exchange:
        words = [self._noise(random) for _ in range(length)]
        places = sorted(_different(random, self.answers, length))
        for place in places:
            words[place] = _word(_below(random, self.symbols))
        return _copied(words, places)

    def _needle(self, random: Random, length: int) -> Exchange:
        words = [self._noise(random) for _ in range(length)]
        key = _word(_below(random, self.symbols))
        depth = _below(random, length + 1)
        words[depth:depth] = [key, self._value(_below(random, self.values))]
        return _copied([*words, ASK, key], [depth + 1])

    def _value(self, number: int) -> str:
        return _word(self.symbols + number)

    def _noise(self, random: Random) -> str:
        return _word(self.symbols + self.values + _below(random, NOISE))


def _copied(words: list[str], places: Sequence[int]) -> Exchange:
    return Exchange(words, [words[place] for place in places], places)


def _product(elements: Sequence[int]) -> Exchange:
    """Apply permutations one after the other; the response is their product."""
    state = PERMUTATIONS[0]  # the identity
    for element in elements:
        state = tuple(state[place] for place in PERMUTATIONS[element])
    return Exchange([*map(_word, elements)], [_word(PERMUTATIONS.index(state))])


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
