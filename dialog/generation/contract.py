"""What a search is given and what it finds.

Shapes: N rows, T tokens, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, Protocol

from torch import Tensor

from dialog.models.contracts import Memory, State


class Step(Protocol):
    """Anything that goes on by one token: a network, an ensemble, a row of a Markov matrix."""

    def __call__(self, tokens: Tensor, memory: Memory, state: State) -> tuple[Tensor, State]:
        """Tokens [N, 1] -> logits [N, 1, V] and the state after them."""


class Replies(NamedTuple):
    """What a search found, a row for each source."""

    tokens: list[list[int]]  # without the token that begins and the one that ends a response
    scores: list[float]  # log p(tokens and end | source) in nats, over the whole vocabulary
    finished: list[bool]  # whether the end was said before max_length


class Search(ABC):
    """Finds a response for each row of a memory."""

    @abstractmethod
    def __call__(self, step: Step, first: Tensor, memory: Memory, state: State) -> Replies:
        """First [N, 1] is the token that begins a response."""
