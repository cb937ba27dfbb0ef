"""BPE-dropout (Provilkov et al. 2020, https://aclanthology.org/2020.acl-main.170): words split in many ways."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush

import numpy as np
import tokenizers

from dialog.data.tokenizer import Tokenizer
from dialog.errors import UserError

CACHED = 2**16
"""Words whose symbols are remembered."""

Merges = Mapping[tuple[int, int], tuple[int, int]]
"""Of two symbols that merge: the merge's rank, and the symbol that they become."""


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
        self._merges = merges_of(tokenizer)
        self._parts = symbols_of(self._merges)
        self._symbols = lru_cache(maxsize=CACHED)(self._split)

    def __reduce__(self) -> tuple[type[BpeDropout], tuple[Tokenizer, float]]:
        return BpeDropout, (self._tokenizer, self._probability)

    def __call__(self, ids: Sequence[int], random: np.random.Generator) -> list[int]:
        """Other ids of the same text, drawn from `random`."""
        words = self._tokenizer.words(self._tokenizer.decode(ids))
        if [token for word in words for token in word] != list(ids):
            words = [(int(token),) for token in ids]
        symbols = [self._symbols(word) for word in words]
        if self._probability == 1:
            return [symbol for word in symbols for symbol in word]
        left_out = (random.geometric(1 - self._probability, sum(map(len, symbols))) - 1).tolist()
        drawn: list[int] = []
        start = 0
        for word, split in zip(words, symbols, strict=True):
            steps = left_out[start : start + len(split)]
            start += len(split)
            drawn.extend(merged(split, self._merges, steps) if any(steps) else word)
        return drawn

    def _split(self, word: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(symbol for token in word for symbol in self._parts.get(token, (token,)))


def merges_of(tokenizer: Tokenizer) -> dict[tuple[int, int], tuple[int, int]]:
    """The merges of a BPE, between ids.

    Raises:
        UserError: it is no BPE.
    """
    model = json.loads(tokenizers.Tokenizer.from_str(tokenizer.json).to_str())["model"]  # pairs, not "a b" as of old
    if model["type"] != "BPE":
        raise UserError(f"data.bpe_dropout is for BPE, and this tokenizer is {model['type']}; set data.bpe_dropout=0")
    ids, prefix = model["vocab"], model["continuing_subword_prefix"] or ""
    return {
        (ids[left], ids[right]): (rank, ids[left + right[len(prefix) :]])
        for rank, (left, right) in enumerate(model["merges"])
    }


def symbols_of(merges: Merges) -> dict[int, tuple[int, ...]]:
    """The single symbols of each token that is merged."""
    symbols: dict[int, tuple[int, ...]] = {}
    for (left, right), (_, token) in sorted(merges.items(), key=lambda item: item[1]):
        symbols.setdefault(token, (*symbols.get(left, (left,)), *symbols.get(right, (right,))))
    return symbols


def merged(symbols: Iterable[int], merges: Merges, left_out: Sequence[int]) -> list[int]:
    """A word of single symbols, merged.

    Args:
        symbols: Of the word.
        merges: By pairs of symbols.
        left_out: For each step, how many of the possible merges are left out before the first that is made: the first
            in rank, of equal rank from the left. There are at most as many steps as symbols.
    """
    word = list(symbols)
    after = [*range(1, len(word)), -1]
    before = list(range(-1, len(word) - 1))
    possible = [
        (*merges[pair], place, pair[1])
        for place, pair in enumerate(zip(word, word[1:], strict=False))
        if pair in merges
    ]
    return word
