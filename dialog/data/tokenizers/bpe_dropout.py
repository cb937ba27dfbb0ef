"""BPE-dropout (Provilkov et al. 2020, https://aclanthology.org/2020.acl-main.170): random
segmentations of words.
"""

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
"""Sizes of the caches: words of a turn, symbols of a word, and merges of a word after the same
merges were dropped.
"""

REMOVED = -1

Ids = tuple[int, ...]
Merges = Mapping[tuple[int, int], tuple[int, int]]
"""Map a pair of symbols to the rank of its merge and the merged symbol."""

_Merge = tuple[int, int, int, int, int]


class BpeDropout:
    """Replace the token ids of a turn by other ids of the same text, for training.

    Each word starts as single symbols. At every step each possible merge is dropped with a
    probability, and the first in rank of the others is applied; if all are dropped, the word is
    finished. `tokenizers` implements this too, but with a random state that cannot be set.

    `decode` gives the same text. Probability 0 gives the ids of `encode`, probability 1 gives
    single symbols. Equal ids and equal random states give equal results. Ids that differ from
    `encode` of their text (a turn truncated inside a word) are split token by token.

    Args:
        tokenizer: A BPE tokenizer.
        probability: Probability to drop each merge at each step; 0.1 in the paper.

    Raises:
        UserError: the tokenizer is not BPE, or the probability is not from 0 to 1.
    """

    def __init__(self, tokenizer: Tokenizer, probability: float) -> None:
        if not 0 <= probability <= 1:
            raise UserError(f"data.bpe_dropout is {probability}; give a probability from 0 to 1")
        self._tokenizer = tokenizer
        self._probability = probability
        self._merges, self._parts = read_merges(tokenizer)
        self._words = lru_cache(maxsize=CACHED_TURNS)(self._split_turn)
        self._split = lru_cache(maxsize=CACHED_WORDS)(self._split_word)
        self._merge = lru_cache(maxsize=CACHED_WORDS)(self._merge_word)

    def __reduce__(self) -> tuple[type[BpeDropout], tuple[Tokenizer, float]]:
        return BpeDropout, (self._tokenizer, self._probability)

    def __call__(self, ids: Sequence[int], random: np.random.Generator) -> list[int]:
        """Return other ids of the same text, drawn from `random`."""
        words = self._words(tuple(map(int, ids)))
        if self._probability == 1:
            return [symbol for _, symbols in words for symbol in symbols]
        steps = sum(len(symbols) for _, symbols in words) - len(words)
        dropped = (random.geometric(1 - self._probability, steps) - 1).tolist()
        drawn: list[int] = []
        start = 0
        for word, symbols in words:
            end = start + len(symbols) - 1
            word_dropped = tuple(dropped[start:end])
            start = end
            drawn.extend(self._merge(symbols, word_dropped) if any(word_dropped) else word)
        return drawn

    def _split_turn(self, ids: Ids) -> tuple[tuple[Ids, Ids], ...]:
        """Return the ids and the single symbols of each word of a turn."""
        words = self._tokenizer.encode_words(self._tokenizer.decode(ids))
        unchanged = tuple(token for word in words for token in word) == ids
        return tuple(self._split(word) for word in (words if unchanged else zip(ids, strict=True)))

    def _split_word(self, word: Ids) -> tuple[Ids, Ids]:
        return word, tuple(symbol for token in word for symbol in self._parts.get(token, (token,)))

    def _merge_word(self, symbols: Ids, dropped: Ids) -> Ids:
        return tuple(apply_merges(symbols, self._merges, dropped))


def read_merges(tokenizer: Tokenizer) -> tuple[Merges, dict[int, Ids]]:
    """Return the merges of a BPE tokenizer, and the single symbols of each merged token, as ids.

    Raises:
        UserError: the tokenizer is not BPE.
    """
    # merges as pairs, not "a b"
    model = json.loads(tokenizers.Tokenizer.from_str(tokenizer.json).to_str())["model"]
    if model["type"] != "BPE":
        raise UserError(
            f"data.bpe_dropout is for BPE, and this tokenizer is {model['type']}; set"
            " data.bpe_dropout=0"
        )
    ids = model["vocab"]
    prefix = model["continuing_subword_prefix"] or ""
    merges = [
        (ids[left], ids[right], left + right[len(prefix) :]) for left, right in model["merges"]
    ]
    symbols: dict[int, Ids] = {}
    # parts before the tokens they form
    for left, right, token in sorted(merges, key=lambda merge: len(merge[2])):
        symbols.setdefault(ids[token], (*symbols.get(left, (left,)), *symbols.get(right, (right,))))
    return {
        (left, right): (rank, ids[token]) for rank, (left, right, token) in enumerate(merges)
    }, symbols


def apply_merges(symbols: Sequence[int], merges: Merges, dropped: Sequence[int]) -> list[int]:
    """Merge the single symbols of a word.

    Args:
        symbols: The symbols.
        merges: The merges, by pairs of symbols.
        dropped: Per step, the number of possible merges dropped before one is applied, in order of
            rank, then from the left. The word is finished when no more are possible; one step less
            than symbols is enough.
    """
    word = _Word(symbols, merges)
    for number in dropped:
        possible = word.pop(number + 1)
        if len(possible) <= number:
            break
        word.apply(possible.pop())
        word.push(possible)
    return [symbol for symbol in word.symbols if symbol != REMOVED]


class _Word:
    """Linked list of symbols, and a heap of merges (rank, position of the left symbol, left, right,
    merged symbol).

    A merge whose symbols another merge has replaced stays in the heap until it is popped, and is
    then discarded.
    """

    def __init__(self, symbols: Sequence[int], merges: Merges) -> None:
        self.symbols = list(symbols)
        self._next = [*range(1, len(self.symbols)), REMOVED]
        self._previous = list(range(-1, len(self.symbols) - 1))
        self._merges = merges
        self._heap: list[_Merge] = []
        for position in range(len(self.symbols) - 1):
            self._push_merge_at(position)

    def pop(self, number: int) -> list[_Merge]:
        """Remove and return at most `number` possible merges, in order."""
        possible: list[_Merge] = []
        while self._heap and len(possible) < number:
            merge = heappop(self._heap)
            _, position, left, right, _ = merge
            if self.symbols[position] == left and self._right_of(position) == right:
                possible.append(merge)
        return possible

    def push(self, merges: list[_Merge]) -> None:
        """Put merges back into the heap."""
        for merge in merges:
            heappush(self._heap, merge)

    def apply(self, merge: _Merge) -> None:
        """Replace two symbols by the merged one."""
        _, position, _, _, symbol = merge
        right = self._next[position]
        self.symbols[position] = symbol
        self.symbols[right] = REMOVED
        self._next[position] = self._next[right]
        if self._next[position] != REMOVED:
            self._previous[self._next[position]] = position
            self._push_merge_at(position)
        if self._previous[position] != REMOVED:
            self._push_merge_at(self._previous[position])

    def _right_of(self, position: int) -> int:
        right = self._next[position]
        return REMOVED if right == REMOVED else self.symbols[right]

    def _push_merge_at(self, position: int) -> None:
        left = self.symbols[position]
        right = self._right_of(position)
        if merge := self._merges.get((left, right)):
            rank, symbol = merge
            heappush(self._heap, (rank, position, left, right, symbol))
