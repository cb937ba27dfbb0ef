"""Contract between a search and the model that it decodes.

Shapes: N rows, T tokens, V vocabulary, D width of the decoder.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from dialog.models.contracts import Memory, State


class Step(Protocol):
    """Next-token scores: a network, an ensemble, or a row of a Markov matrix."""

    def __call__(self, tokens: Tensor, memory: Memory, state: State) -> tuple[Tensor, State]:
        """Read tokens [N, T]; return logits [N, T, V] and the new state."""


class RepresentingStep(Step, Protocol):
    """Step that also shows the vectors that its logits are made of, as contrastive search compares
    them.
    """

    def represent(
        self, tokens: Tensor, memory: Memory, state: State
    ) -> tuple[Tensor, Tensor, State]:
        """Read tokens [N, T]; return logits [N, T, V], vectors [N, T, D] and the new state."""


class EncodingStep(Step, Protocol):
    """Step that also encodes a source, as the anti-language model reads an empty one."""

    def start(self, source: Tensor, mask: Tensor) -> tuple[Memory, State]:
        """Encode a source [N, S], mask True = real; return memory and state."""


class Hypothesis(NamedTuple):
    """Decoded response."""

    tokens: list[int]  # without begin and end tokens
    # log p of each token in nats, unconstrained; of the end token too if finished
    token_scores: list[float]
    finished: bool  # True if the end token was decoded within max_length
    rank: float  # what the search sorts by, higher is better

    @property
    def score(self) -> float:
        """Log-probability of tokens and end token given the source, in nats."""
        return math.fsum(self.token_scores)


def best_first(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    """Sort by rank; hypotheses without an end token come last."""
    return sorted(hypotheses, key=lambda hypothesis: (not hypothesis.finished, -hypothesis.rank))


INTERVALS = {"cpu": 1}
"""Tokens from one `reads_ends` to the next, by type of device."""
INTERVAL = 8
"""The same on other devices. Each time, the host waits until the device has computed all tokens;
in between, rows that have ended are computed in vain.
"""


def reads_ends(step: Step, length: int, device: torch.device) -> bool:
    """Return whether a search reads from the device which rows have ended, after the token behind
    ``length`` others.

    For a step that shows its tokens (`WatchedStep`) it does so after every token, so that none
    behind the last one is shown.
    """
    every = 1 if getattr(step, "shows_tokens", False) else INTERVALS.get(device.type, INTERVAL)
    return (length + 1) % every == 0


Replies = list[list[Hypothesis]]
"""The hypotheses of each source, best first; none if the model's scores are not numbers."""


class Search(ABC):
    """Decoding algorithm.

    Attributes:
        streams: Whether the tokens that the step reads for one source are those of its response, in
            order, so that they can be shown before the search has ended.
        candidates: Number of responses for each source.
    """

    streams = False
    candidates = 1

    @abstractmethod
    def __call__(
        self,
        step: Step,
        first: Tensor,
        memory: Memory,
        state: State,
        source: Tensor,
        ids: Sequence[str] = (),
    ) -> Replies:
        """Decode responses for each row of `first` [N, 1], which holds the begin token.

        ``source`` [N, S] are the tokens that the response may be compared with. Together with
        ``ids``, one for each source, they seed the draws of a search; without ids, equal sources
        get equal draws.
        """
