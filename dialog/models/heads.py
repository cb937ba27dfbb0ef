"""Heads: from a decoder's outputs to scores of tokens, also by pointing at the source.

Shapes: .. any leading dimensions ([B, T], or N positions), S source tokens, E embedding size, V
    vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.config.components import Family
from dialog.models.kernels.linear import linear
from dialog.models.kernels.products import product
from dialog.models.state import Rows

NEVER = 1e-30
"""In place of a probability of 0, whose logarithm has no gradient."""


@dataclass(frozen=True)
class Decoded(Rows):
    """Inputs of a head for each target position."""

    outputs: Tensor  # [.., E]
    inputs: Tensor  # [.., E], the embeddings of the previous tokens
    weights: Tensor  # [.., S], attention over the source; [.., 0] for a head that does not point
    source: Tensor  # [.., S], the source's tokens; [.., 0] for a head that does not point

    def __getitem__(self, places: tuple[Tensor, ...]) -> Decoded:
        """Select N positions of [B, T, ..] by their rows and columns."""
        return self._map(lambda tensor: tensor[places])  # [N, ..]

    def flat(self) -> Decoded:
        """Return all positions of [B, T, ..] as [B T, ..]."""
        return self._map(lambda tensor: tensor.flatten(0, 1))  # [B T, ..]


class Head(nn.Module, ABC):
    """Scores of the next token; their softmax is its distribution."""

    points: bool = False
    """True if it uses the decoder's attention over the source."""

    coverage: float = 0.0
    """Weight of the coverage loss, for a head that points."""

    divisible: bool = False
    """True if `parts` computes the scores of a part of the vocabulary without those of the rest."""

    @property
    def preparable(self) -> bool:
        """True if `prepared` returns a head."""
        return False

    def prepared(self, *, int8: bool) -> Head:
        """Return a head with the same scores in float32, whose weights are laid out once; see
        `Decoder.prepared`.
        """
        raise TypeError(f"{type(self).__name__} is not preparable")

    @abstractmethod
    def forward(self, decoded: Decoded) -> Tensor:
        """Return scores [.., V]."""

    def parts(self, decoded: Decoded, width: int) -> Iterator[Tensor]:
        """Yield the scores of ``width`` tokens at a time [.., width], the last of fewer; they may
        be overwritten.
        """
        yield from self(decoded).split(width, -1)

    @abstractmethod
    def measures(self, decoded: Decoded) -> dict[str, Tensor]:
        """Return values whose means are logged, by name: [N] for positions [N, ..]."""


class VocabularyHead(Head):
    """W o, or W o + b with ``bias``; with tied embeddings W is their table (Press & Wolf 2017).

    An untied W starts as N(0, ``deviation``^2), by default 1 / sqrt(E); b as uniform in +-1 /
    sqrt(V).
    """

    divisible = True
    preparable = True

    def __init__(
        self,
        vocabulary: int,
        size: int,
        *,
        tied: nn.Parameter | None = None,
        bias: bool = False,
        deviation: float | None = None,
    ) -> None:
        super().__init__()
        if tied is not None and deviation is not None:
            raise ValueError(
                "deviation: W is the table of the embeddings; remove it, or set"
                " model.tie_embeddings=none"
            )
        self.weight = output_weights(vocabulary, size, deviation) if tied is None else tied
        bound = vocabulary**-0.5
        self.bias = nn.Parameter(torch.empty(vocabulary).uniform_(-bound, bound)) if bias else None

    def forward(self, decoded: Decoded) -> Tensor:
        """Scores [.., V]."""
        return F.linear(decoded.outputs, self.weight, self.bias)  # [.., V]

    def parts(self, decoded: Decoded, width: int) -> Iterator[Tensor]:
        """Yield the scores of ``width`` tokens at a time, a product with their rows of W each."""
        biases = () if self.bias is None else torch.split(self.bias, width)
        for weight, bias in zip_longest(torch.split(self.weight, width), biases):
            # [.., width]; without b, which the product would copy first
            scores = linear(decoded.outputs, weight)
            yield scores if bias is None else scores.add_(bias)

    def measures(self, decoded: Decoded) -> dict[str, Tensor]:
        """No values."""
        return {}

    def prepared(self, *, int8: bool) -> PreparedHead:
        """Return the same product, laid out once."""
        return PreparedHead(self, int8=int8)


class PreparedHead(Head):
    """Scores of a `VocabularyHead` in float32."""

    def __init__(self, head: VocabularyHead, *, int8: bool) -> None:
        super().__init__()
        self.scores = product(head.weight, head.bias, int8=int8)

    def forward(self, decoded: Decoded) -> Tensor:
        """Scores [.., V]."""
        outputs = decoded.outputs
        return self.scores(outputs.flatten(0, -2)).float().view(*outputs.shape[:-1], -1)

    def measures(self, decoded: Decoded) -> dict[str, Tensor]:
        """No values."""
        return {}


class PointerHead(Head):
    """p(v) = sum of the attention on the source's tokens v; Vinyals et al. 2015.

    It generates source tokens only.

    It uses the decoder's attention and nothing else, so choose a decoder whose attention queries
    with the state after the previous token (``lstm_luong``, ``transformer``); Bahdanau's queries
    with the state before it.
    """

    points = True

    def __init__(self, vocabulary: int, *, coverage: float = 0.0) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.coverage = non_negative(coverage)

    def forward(self, decoded: Decoded) -> Tensor:
        """Log-probabilities [.., V]."""
        # gives every parameter a gradient on every rank
        unused = 0.0 * decoded.outputs.sum(-1, keepdim=True)
        return (copied(decoded, self.vocabulary) + NEVER).log() + unused

    def measures(self, decoded: Decoded) -> dict[str, Tensor]:
        """No values."""
        return {}


class PointerGeneratorHead(Head):
    """p(v) = g softmax(W o)_v + (1 - g) sum of the attention on the source's tokens v; See
    et al. 2017, equation 9.

    g = sigmoid(w . [o; x] + b) with the previous token x and the output o, which depends on the
    state and the context. Tokens are subwords, so the vocabulary needs no extension. ``coverage``
    is the weight of the coverage loss (equation 12).
    """

    points = True

    def __init__(
        self, vocabulary: int, size: int, *, tied: nn.Parameter | None = None, coverage: float = 0.0
    ) -> None:
        super().__init__()
        self.weight = output_weights(vocabulary, size) if tied is None else tied
        self.gate = nn.Linear(2 * size, 1)
        self.coverage = non_negative(coverage)

    def forward(self, decoded: Decoded) -> Tensor:
        """Log-probabilities [.., V]."""
        gate = self._gate(decoded)  # [.., 1]
        # [.., V]
        vocabulary = at_least_float(F.linear(decoded.outputs, self.weight)).log_softmax(-1)
        generated = F.logsigmoid(gate) + vocabulary  # [.., V]
        pointed = F.logsigmoid(-gate) + (copied(decoded, len(self.weight)) + NEVER).log()  # [.., V]
        return torch.logaddexp(generated, pointed)

    def measures(self, decoded: Decoded) -> dict[str, Tensor]:
        """The probability g that a token is generated, not copied."""
        return {"generation_probability": self._gate(decoded).sigmoid().squeeze(-1)}

    def _gate(self, decoded: Decoded) -> Tensor:
        return at_least_float(
            self.gate(torch.cat([decoded.outputs, decoded.inputs.to(decoded.outputs.dtype)], -1))
        )


HEADS: Family[Head] = Family(
    "head",
    {
        "vocabulary": VocabularyHead,
        "pointer": PointerHead,
        "pointer_generator": PointerGeneratorHead,
    },
    runtime=("vocabulary", "size", "tied"),
)


def output_weights(vocabulary: int, size: int, deviation: float | None = None) -> nn.Parameter:
    """Return an output layer [V, E]; by default it maps vectors of unit variance to scores of unit
    variance.
    """
    return nn.Parameter(nn.init.normal_(torch.empty(vocabulary, size), std=deviation or size**-0.5))


def non_negative(coverage: float) -> float:
    """Return the weight, or raise ValueError: a negative one would reward repeated attention."""
    if not coverage >= 0:
        raise ValueError(f"coverage must be at least 0, not {coverage}")
    return coverage


def copied(decoded: Decoded, vocabulary: int) -> Tensor:
    """Sum the attention on all source positions of each token of the vocabulary [.., V]."""
    weights = at_least_float(decoded.weights)
    zeros = weights.new_zeros(*weights.shape[:-1], vocabulary)
    return zeros.scatter_add(-1, decoded.source, weights)  # [.., V]


def at_least_float(scores: Tensor) -> Tensor:
    """Cast to float32 or better, for sums over a vocabulary."""
    return scores if scores.dtype.itemsize >= 4 else scores.float()
