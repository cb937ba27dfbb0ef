"""Contract between a search and the model that it decodes.

Shapes: N rows, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, Protocol

from torch import Tensor

from dialog.models.contracts import Memory, State


class Step(Protocol):
    """Next-token scores: a network, an ensemble, or a row of a Markov matrix."""

    def __call__(self, tokens: Tensor, memory: Memory, state: State) -> tuple[Tensor, State]:
        """Read tokens [N, 1]; return logits [N, 1, V] and the new state."""


class Replies(NamedTuple):
    """Decoded responses, one per source."""

    tokens: list[list[int]]  # without begin and end tokens
    scores: list[float]  # log p(tokens, end token | source) in nats, normalised over the whole vocabulary
    finished: list[bool]  # True if the end token was decoded within max_length


class Search(ABC):
    """Decoding algorithm."""

    @abstractmethod
    def __call__(self, step: Step, first: Tensor, memory: Memory, state: State) -> Replies:
        """Decode one response for each row of `first` [N, 1], which holds the begin token."""
