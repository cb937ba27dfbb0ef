"""Likelihood of the references under a model: exact sums, and ratios of these sums."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from dialog.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class Likelihood:
    """Sums over scored references; sums can be added, and every ratio is a ratio of sums, never a mean of ratios.

    The end token counts in `nll` and `tokens`, but is neither a word nor a byte. Bits per byte and perplexity per word
    are therefore comparable across tokenizers.

    Attributes:
        nll: sum of -log p(reference | context) in nats, with teacher forcing and without label smoothing.
        tokens: number of target tokens, one end token per reference included.
        words: number of white-space separated words of the raw references.
        bytes: number of UTF-8 bytes of the raw references.
        correct: number of target tokens with the highest probability of the vocabulary.
        examples: number of references.
    """

    nll: float = 0.0
    tokens: int = 0
    words: int = 0
    bytes: int = 0
    correct: int = 0
    examples: int = 0

    @classmethod
    def of(cls, reference: str, nll: float, *, tokens: int, correct: int) -> Likelihood:
        """Count one raw reference with its `nll`, its number of target `tokens`, and how many of them are `correct`."""
        size, words = len(reference.encode()), len(reference.split())
        return cls(nll=nll, tokens=tokens, words=words, bytes=size, correct=correct, examples=1)

    @classmethod
    def total(cls, parts: Iterable[Likelihood]) -> Likelihood:
        """Return the sum, rounded once: bit-identical in any order."""
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
        """Bits per byte = nll / (ln 2 * bytes). Gao et al. (2020), The Pile."""
        return self.nll / (math.log(2) * _check_positive(self.bytes, "byte"))

    @property
    def perplexity_token(self) -> float:
        """Perplexity per token = exp(nll / tokens); comparable for one tokenizer only."""
        return _exp(self.nll / _check_positive(self.tokens, "token"))

    @property
    def perplexity_word(self) -> float:
        """Perplexity per word = exp(nll / words)."""
        return _exp(self.nll / _check_positive(self.words, "word"))

    @property
    def token_accuracy(self) -> float:
        """Token accuracy = correct / tokens, in [0, 1]."""
        return self.correct / _check_positive(self.tokens, "token")

    def metrics(self) -> dict[str, float | int]:
        """Return ratios and sums under their names in metrics.json.

        Raises:
            UserError: the references have no token, word or byte.
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


def _check_positive(count: int, unit: str) -> int:
    if count == 0:
        raise UserError(
            f"likelihood per {unit} is undefined: the references have no {unit}; "
            "check data.path for an empty split or empty responses"
        )
    return count


def _exp(nats: float) -> float:
    try:
        return math.exp(nats)
    except OverflowError:
        return math.inf
