"""Markov chains as steps, with all their responses by brute force."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from dialog.generation.constraints import Constraints
from dialog.generation.search import Replies, Search
from dialog.models.contracts import Memory, State
from dialog.models.state import Rows

END, START = 0, 1


@dataclass(frozen=True)
class Nothing(Rows):
    """Empty memory: a chain depends on the last tokens only."""


@dataclass(frozen=True)
class Before(Rows):
    """State of a chain of order 2."""

    token: Tensor  # [N], the token before the last one


@dataclass
class Chain:
    """Chain of order 2 as a step: p(next token | last two tokens) = softmax(logits[before last,
    last]).
    """

    logits: Tensor  # [V, V, V]

    @classmethod
    def draw(cls, vocabulary: int, seed: int) -> Chain:
        generator = torch.Generator().manual_seed(seed)
        return cls(
            2
            * torch.randn(
                vocabulary, vocabulary, vocabulary, generator=generator, dtype=torch.double
            )
        )

    def __call__(self, tokens: Tensor, memory: Memory, state: Before) -> tuple[Tensor, State]:
        rows = []
        before = state.token
        for token in tokens.T:
            rows.append(self.logits[before, token])
            before = token
        return torch.stack(rows, 1), Before(before)

    def start(self, source: Tensor, mask: Tensor) -> tuple[Nothing, Before]:
        return Nothing(), Before(torch.full((len(source),), START))

    def represent(
        self, tokens: Tensor, memory: Memory, state: Before
    ) -> tuple[Tensor, Tensor, State]:
        """Use the logits as vectors."""
        logits, state = self(tokens, memory, state)
        return logits, logits, state

    def search(
        self, search: Search, rows: int = 1, source: Tensor | None = None, ids: Sequence[str] = ()
    ) -> Replies:
        first = torch.full((rows, 1), START)
        source = torch.arange(6, 6 + rows).unsqueeze(1) if source is None else source
        return search(self, first, Nothing(), Before(first.squeeze(1)), source, ids)

    def scores(self, tokens: list[int], *, finished: bool) -> list[float]:
        """Return log p of each token, and of the end token if the response is finished."""
        table = self.logits.log_softmax(-1)
        path = [START, START, *tokens, *([END] if finished else [])]
        return [float(table[a, b, c]) for a, b, c in zip(path, path[1:], path[2:], strict=False)]


def responses(vocabulary: int, constraints: Constraints) -> Iterator[list[int]]:
    """Yield every sequence of tokens that the lengths and special tokens allow before an end
    token.
    """
    tokens = [token for token in range(vocabulary) if token not in (END, *constraints.special)]
    for length in range(constraints.min_length, constraints.max_length + 1):
        yield from map(list, itertools.product(tokens, repeat=length))


def repeats(tokens: list[int], order: int) -> bool:
    """Return whether an n-gram occurs twice."""
    ngrams = [tuple(tokens[at : at + order]) for at in range(len(tokens) - order + 1)]
    return len(set(ngrams)) < len(ngrams)


def total(scores: list[float]) -> float:
    return math.fsum(scores)


@dataclass(frozen=True)
class Kind(Rows):
    """Memory of a source: the chain that its responses are drawn from."""

    number: Tensor  # [N]


@dataclass
class Sourced:
    """A chain of order 2 for each kind of source; a source is its kind [N, 1]."""

    tables: Tensor  # [kinds, V, V, V]

    @classmethod
    def draw(cls, vocabulary: int, seeds: Iterable[int]) -> Sourced:
        return cls(torch.stack([Chain.draw(vocabulary, seed).logits for seed in seeds]))

    def start(self, source: Tensor, mask: Tensor) -> tuple[Kind, Before]:
        return Kind(source[:, 0]), Before(torch.full((len(source),), START))

    def __call__(self, tokens: Tensor, memory: Kind, state: Before) -> tuple[Tensor, Before]:
        logits, before = [], state.token
        for token in tokens.T:
            logits.append(self.tables[memory.number, before, token])
            before = token
        return torch.stack(logits, 1), Before(before)

    def represent(
        self, tokens: Tensor, memory: Kind, state: Before
    ) -> tuple[Tensor, Tensor, Before]:
        """Use the logits as vectors."""
        logits, state = self(tokens, memory, state)
        return logits, logits, state

    def search(self, search: Search, kinds: int | None = None) -> Replies:
        """Decode a response to each of the first kinds of source."""
        return self.answer(search, range(len(self.tables) if kinds is None else kinds))

    def answer(
        self, search: Search, kinds: Sequence[int], ids: Sequence[str] = (), padding: int = 0
    ) -> Replies:
        """Decode a response to each source, which is a kind behind padding tokens."""
        source = torch.tensor(kinds).unsqueeze(1)
        memory, state = self.start(source, source >= 0)
        return search(
            self, torch.full_like(source, START), memory, state, F.pad(source, (0, padding)), ids
        )

    def scores(self, kind: int, tokens: Sequence[int], *, finished: bool = True) -> list[float]:
        return Chain(self.tables[kind]).scores(list(tokens), finished=finished)

    def totals(self, tokens: Sequence[int]) -> Tensor:
        """Return log p of an ended response for each kind of source."""
        path = [START, START, *tokens, END]
        table = self.tables.log_softmax(-1)
        return sum(table[:, a, b, c] for a, b, c in zip(path, path[1:], path[2:], strict=False))
