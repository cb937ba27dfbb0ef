"""BPE-dropout (Provilkov et al. 2020, https://aclanthology.org/2020.acl-main.170): words split in many ways."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from heapq import heappop, heappush

import numpy as np
import tokenizers

from dialog.data.tokenizers.tokenizer import Tokenizer
from dialog.errors import UserError

CACHED_TURNS = 2**16
CACHED_WORDS = 2**17
"""What is remembered: turns' words, words' symbols, and what words have become after the same merges were left out."""

GONE = -1

Ids = tuple[int, ...]
Merges = Mapping[tuple[int, int], tuple[int, int]]
"""Of two symbols that merge: the merge's rank, and the symbol that they become."""

_Merge = tuple[int, int, int, int, int]


class BpeDropout:
    """Token ids of a turn to other ids of the same text, for training.

    From single symbols on, at each step each merge that is possible is left out with a probability, and of the others
    the first in rank is made; where all are left out, the word is done. The library does it too, but from a random
    state that cannot be set.

    `decode` gives the same text; the probability 0 gives what `encode` gives, 1 gives single symbols; the same ids and
    the same random state give the same ids. Ids that are not those that `encode` gives their text (a turn that was cut
    inside a word) are split token by token.

    Args:
        tokenizer: A BPE.
        probability: Of each merge to be left out at each step; 0.1 in the paper.

    Raises:
        UserError: another model than BPE, or no probability.
    """

    def __init__(self, tokenizer: Tokenizer, probability: float) -> None:
        if not 0 <= probability <= 1:
            raise UserError(f"data.bpe_dropout is {probability}; give a probability from 0 to 1")
        self._tokenizer = tokenizer
        self._probability = probability
        self._merges, self._parts = merges_of(tokenizer)
        self._words = lru_cache(maxsize=CACHED_TURNS)(self._find_words)
        self._split = lru_cache(maxsize=CACHED_WORDS)(self._find_symbols)
        self._merge = lru_cache(maxsize=CACHED_WORDS)(self._find_merged)

    def __reduce__(self) -> tuple[type[BpeDropout], tuple[Tokenizer, float]]:
        return BpeDropout, (self._tokenizer, self._probability)

    def __call__(self, ids: Sequence[int], random: np.random.Generator) -> list[int]:
        """Other ids of the same text, drawn from `random`."""
        words = self._words(tuple(map(int, ids)))
        if self._probability == 1:
            return [symbol for _, symbols in words for symbol in symbols]
        most = sum(len(symbols) for _, symbols in words) - len(words)
        left_out = (random.geometric(1 - self._probability, most) - 1).tolist()
        drawn: list[int] = []
        start = 0
        for word, symbols in words:
            end = start + len(symbols) - 1
            steps = tuple(left_out[start:end])
            start = end
            drawn.extend(self._merge(symbols, steps) if any(steps) else word)
        return drawn

    def _find_words(self, ids: Ids) -> tuple[tuple[Ids, Ids], ...]:
        """Of each word of a turn its ids and its single symbols."""
        words = self._tokenizer.words(self._tokenizer.decode(ids))
        own = tuple(token for word in words for token in word) == ids
        return tuple(self._split(word) for word in (words if own else zip(ids, strict=True)))

    def _find_symbols(self, word: Ids) -> tuple[Ids, Ids]:
        return word, tuple(symbol for token in word for symbol in self._parts.get(token, (token,)))

    def _find_merged(self, symbols: Ids, left_out: Ids) -> Ids:
        return tuple(merged(symbols, self._merges, left_out))


def merges_of(tokenizer: Tokenizer) -> tuple[Merges, dict[int, Ids]]:
    """The merges of a BPE, and the single symbols of each token that they make, all of them ids.

    Raises:
        UserError: it is no BPE.
    """
    model = json.loads(tokenizers.Tokenizer.from_str(tokenizer.json).to_str())["model"]  # pairs, not "a b" as of old
    if model["type"] != "BPE":
        raise UserError(f"data.bpe_dropout is for BPE, and this tokenizer is {model['type']}; set data.bpe_dropout=0")
    ids, prefix = model["vocab"], model["continuing_subword_prefix"] or ""
    made = [(ids[left], ids[right], left + right[len(prefix) :]) for left, right in model["merges"]]
    symbols: dict[int, Ids] = {}
    for left, right, token in sorted(made, key=lambda merge: len(merge[2])):  # parts before what they are parts of
        symbols.setdefault(ids[token], (*symbols.get(left, (left,)), *symbols.get(right, (right,))))
    return {(left, right): (rank, ids[token]) for rank, (left, right, token) in enumerate(made)}, symbols


def merged(symbols: Sequence[int], merges: Merges, left_out: Sequence[int]) -> list[int]:
    """A word of single symbols, merged.

    Args:
        symbols: Of the word.
        merges: By pairs of symbols.
        left_out: For each step (symbols less one are enough), how many of the possible merges are left out before the
            first that is made: the first in rank, of equal rank from the left. Where no more are possible, the word is
            done.
    """
    word = _Word(symbols, merges)
    for number in left_out:
        possible = word.first(number + 1)
        if len(possible) <= number:
            break
        word.make(possible.pop())
        word.give_back(possible)
    return [symbol for symbol in word.symbols if symbol != GONE]


class _Word:
    """Symbols and their neighbours, and a heap of merges: (rank, place of the left symbol, both symbols, the new one).

    A merge that was overtaken by another stays in the heap until it is seen; its symbols are not there any more.
    """

    def __init__(self, symbols: Sequence[int], merges: Merges) -> None:
        self.symbols = list(symbols)
        self._after = [*range(1, len(self.symbols)), GONE]
        self._before = list(range(-1, len(self.symbols) - 1))
        self._merges = merges
        self._heap: list[_Merge] = []
        for place in range(len(self.symbols) - 1):
            self._offer(place)

    def first(self, number: int) -> list[_Merge]:
        """Take the first possible merges out, at most so many."""
        found: list[_Merge] = []
        while self._heap and len(found) < number:
            merge = heappop(self._heap)
            _, place, left, right, _ = merge
            if self.symbols[place] == left and self._right_of(place) == right:
                found.append(merge)
        return found

    def give_back(self, merges: list[_Merge]) -> None:
        """Put merges in again."""
        for merge in merges:
            heappush(self._heap, merge)

    def make(self, merge: _Merge) -> None:
        """Put the new symbol in the place of two."""
        _, place, _, _, symbol = merge
        gone = self._after[place]
        self.symbols[place], self.symbols[gone] = symbol, GONE
        self._after[place] = self._after[gone]
        if self._after[place] != GONE:
            self._before[self._after[place]] = place
            self._offer(place)
        if self._before[place] != GONE:
            self._offer(self._before[place])

    def _right_of(self, place: int) -> int:
        after = self._after[place]
        return GONE if after == GONE else self.symbols[after]

    def _offer(self, place: int) -> None:
        left, right = self.symbols[place], self._right_of(place)
        if found := self._merges.get((left, right)):
            rank, symbol = found
            heappush(self._heap, (rank, place, left, right, symbol))
