"""How probable the references are to a model: exact sums, and the ratios that are read off them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from dialog.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class Likelihood:
    """Sums over scored references; two of them add up, and every ratio is taken from the sums, never a mean of ratios.

    The end token is part of the text's probability: its nats are in `nll` and it is one of `tokens`, but neither a word
    nor a byte. Bits per byte and perplexity per word therefore compare models of different tokenizers.

    Attributes:
        nll: -log p(reference | context) in nats, teacher forced, without label smoothing.
        tokens: target tokens, one end token a response included.
        words: white-space separated words of the raw references.
        bytes: UTF-8 bytes of the raw references.
        correct: target tokens to which the model gave the highest probability.
        examples: references.
    """

    nll: float = 0.0
    tokens: int = 0
    words: int = 0
    bytes: int = 0
    correct: int = 0
    examples: int = 0

    @classmethod
    def of(cls, reference: str, nll: float, *, tokens: int, correct: int) -> Likelihood:
        """One reference, raw as in the corpus, and what the model made of its `tokens` target tokens."""
        size, words = len(reference.encode()), len(reference.split())
        return cls(nll=nll, tokens=tokens, words=words, bytes=size, correct=correct, examples=1)

    @classmethod
    def total(cls, parts: Iterable[Likelihood]) -> Likelihood:
        """The sum of all parts, rounded once: the same to the last bit in whatever order they come."""
        parts = tuple(parts)
        return cls(
            nll=math.fsum(part.nll for part in parts),
            tokens=sum(part.tokens for part in parts),
            words=sum(part.words for part in parts),
            bytes=sum(part.bytes for part in parts),
            correct=sum(part.correct for part in parts),
            examples=sum(part.examples for part in parts),
        )

    def __add__(self, other: Likelihood) -> Likelihood:
        return Likelihood.total((self, other))

    @property
    def bits_per_byte(self) -> float:
        """Nll / (ln 2 * bytes)."""
        return self.nll / (math.log(2) * _some(self.bytes, "byte"))

    @property
    def perplexity_token(self) -> float:
        """exp(nll / tokens); compares models of one tokenizer only."""
        return _exp(self.nll / _some(self.tokens, "token"))

    @property
    def perplexity_word(self) -> float:
        """exp(nll / words)."""
        return _exp(self.nll / _some(self.words, "word"))

    @property
    def token_accuracy(self) -> float:
        """Correct / tokens, in [0, 1]."""
        return self.correct / _some(self.tokens, "token")

    def metrics(self) -> dict[str, float | int]:
        """The ratios and the sums under the names of metrics.json.

        Raises:
            UserError: the references have no token, word or byte, so that a ratio has no meaning.
        """
        return {
            "bits_per_byte": self.bits_per_byte,
            "perplexity_token": self.perplexity_token,
            "perplexity_word": self.perplexity_word,
            "nll_nats": self.nll,
            "tokens": self.tokens,
            "words": self.words,
            "bytes": self.bytes,
            "token_accuracy": self.token_accuracy,
        }


def _some(count: int, unit: str) -> int:
    if count == 0:
        raise UserError(
            f"no likelihood per {unit}: the references scored have no {unit}; "
            "look for an empty split or empty responses in data.path"
        )
    return count


def _exp(nats: float) -> float:
    try:
        return math.exp(nats)
    except OverflowError:
        return math.inf
