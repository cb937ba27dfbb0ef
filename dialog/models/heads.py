"""From a decoder's outputs to scores of tokens, where need be by pointing at the source.

Shapes: .. any leading dimensions ([B, T], or N positions), S source tokens, E embedding size, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.config.components import Family
from dialog.models.state import Rows

NEVER = 1e-30
"""In place of a probability of 0, whose logarithm has no gradient."""


@dataclass(frozen=True)
class Decoded(Rows):
    """Positions of a target as a decoder leaves them: all that a head needs of each."""

    outputs: Tensor  # [.., E]
    inputs: Tensor  # [.., E], the embeddings of the tokens before
    weights: Tensor  # [.., S], attention over the source; [.., 0] for a head that does not point
    source: Tensor  # [.., S], the source's tokens; [.., 0] for a head that does not point

    def __getitem__(self, places: tuple[Tensor, ...]) -> Decoded:
        """The positions [N, ..] of [B, T, ..] at N rows and columns."""
        return self._map(lambda tensor: tensor[places])  # [N, ..]


class Head(nn.Module, ABC):
    """Scores of the next token; a softmax of them is its distribution."""

    points: bool = False
    """Whether it needs the decoder's attention over the source."""

    coverage: float = 0.0
    """Weight of the coverage loss, for a head that points."""

    @abstractmethod
    def forward(self, decoded: Decoded) -> Tensor:
        """Positions -> scores [.., V]."""

    @abstractmethod
    def measures(self, decoded: Decoded) -> dict[str, Tensor]:
        """What is worth logging of positions [N, ..], by name."""


class VocabularyHead(Head):
    """W o, with the embeddings' table as W where they are tied (Press & Wolf 2017)."""

    def __init__(self, vocabulary: int, size: int, *, tied: nn.Parameter | None = None) -> None:
        super().__init__()
        self.weight = scores_of(vocabulary, size) if tied is None else tied

    def forward(self, decoded: Decoded) -> Tensor:
        """Scores [.., V]."""
        return F.linear(decoded.outputs, self.weight)  # [.., V]

    def measures(self, decoded: Decoded) -> dict[str, Tensor]:
        """Nothing."""
        return {}


class PointerHead(Head):
    """p(v) = sum of the attention on the source's tokens v; Vinyals et al. 2015. It says only what is there.

    The decoder's own attention is all that it looks at, so take one that asks with the state after the token before
    (``lstm_luong``, ``transformer``); Bahdanau's asks with the state before it.
    """

    points = True

    def __init__(self, vocabulary: int, *, coverage: float = 0.0) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.coverage = at_least_zero(coverage)

    def forward(self, decoded: Decoded) -> Tensor:
        """Log-probabilities [.., V]."""
        unused = 0.0 * decoded.outputs.sum(-1, keepdim=True)  # so that processes wait for no gradient that never comes
        return (copied(decoded, self.vocabulary) + NEVER).log() + unused

    def measures(self, decoded: Decoded) -> dict[str, Tensor]:
        """Nothing."""
        return {}


class PointerGeneratorHead(Head):
    """p(v) = g softmax(W o)_v + (1 - g) sum of the attention on the source's tokens v; See et al. 2017, equation 9.

    g = sigmoid(w . [o; x] + b) with the token x before and the output o, which knows the state and the context. Tokens
    are subwords, so there is no extended vocabulary. ``coverage`` is the weight of the coverage loss (equation 12).
    """

    points = True

    def __init__(self, vocabulary: int, size: int, *, tied: nn.Parameter | None = None, coverage: float = 0.0) -> None:
        super().__init__()
        self.weight = scores_of(vocabulary, size) if tied is None else tied
        self.gate = nn.Linear(2 * size, 1)
        self.coverage = at_least_zero(coverage)

    def forward(self, decoded: Decoded) -> Tensor:
        """Log-probabilities [.., V]."""
        gate = self._gate(decoded)  # [.., 1]
        written = F.logsigmoid(gate) + at_least_float(F.linear(decoded.outputs, self.weight)).log_softmax(-1)  # [.., V]
        pointed = F.logsigmoid(-gate) + (copied(decoded, len(self.weight)) + NEVER).log()  # [.., V]
        return torch.logaddexp(written, pointed)

    def measures(self, decoded: Decoded) -> dict[str, Tensor]:
        """The mean probability that a token is written, not copied."""
        return {"generation_probability": self._gate(decoded).sigmoid().mean()}

    def _gate(self, decoded: Decoded) -> Tensor:
        return at_least_float(self.gate(torch.cat([decoded.outputs, decoded.inputs.to(decoded.outputs.dtype)], -1)))


HEADS: Family[Head] = Family(
    "head",
    {
        "vocabulary": VocabularyHead,
        "pointer": PointerHead,
        "pointer_generator": PointerGeneratorHead,
    },
    runtime=("vocabulary", "size", "tied"),
)


def scores_of(vocabulary: int, size: int) -> nn.Parameter:
    """An output layer [V, E] whose scores of vectors of unit variance have unit variance."""
    return nn.Parameter(nn.init.normal_(torch.empty(vocabulary, size), std=size**-0.5))


def at_least_zero(coverage: float) -> float:
    """Refuse a weight that would reward looking at the same place again."""
    if not coverage >= 0:
        raise ValueError(f"coverage must be at least 0, not {coverage}")
    return coverage


def copied(decoded: Decoded, vocabulary: int) -> Tensor:
    """The attention on each token of the vocabulary [.., V]: the sum over the places where the source has it."""
    weights = at_least_float(decoded.weights)
    nothing = weights.new_zeros(*weights.shape[:-1], vocabulary)
    return nothing.scatter_add(-1, decoded.source, weights)  # [.., V]


def at_least_float(scores: Tensor) -> Tensor:
    """Scores in float32 or better, for what is added up over a vocabulary."""
    return scores if scores.dtype.itemsize >= 4 else scores.float()
