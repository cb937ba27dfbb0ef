"""Likelihood of the references under a model: ratios of sums, never means of ratios.

Inputs of `update` and `statistics_of`, each a number or one for each reference or batch; a single
number beside several is that of each of them:

* `nll`: sum of -log p(reference | context) in nats, with teacher forcing, without label smoothing.
* `tokens`: number of target tokens, one end token per reference included. The end token is neither
  a word nor a byte.
* `correct`: number of target tokens with the highest probability of the vocabulary.
* `words`, `bytes`: number of words, and of UTF-8 bytes, of the raw references.
* `unknown`, `unknown_bytes`: number of target tokens that are `<unk>`, and of UTF-8 bytes of the
  text they replace.

p(`<unk>`) is one probability for all unknown words. Metrics that compare tokenizers therefore
add the bytes of the text that `<unk>` replaces, `UNKNOWN_BITS` each, on top of the
model's own -log p(`<unk>`): the code length of a model that emits `<unk>` and then spells the text
in uniformly distributed bytes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dialog.metrics.scores.additive import AdditiveScore, Numbers, Statistic, Statistics, ratio

UNKNOWN_BITS = 8
"""Charge for each byte of text that is encoded as `<unk>`."""


class NegativeLogLikelihoodScore(AdditiveScore):
    """Negative log-likelihood in nats: the total, or with `reduction="mean"` the total / tokens."""

    higher_is_better: bool | None = False
    size = 2

    def __init__(self, reduction: str = "sum", **options: Any) -> None:
        if reduction not in ("sum", "mean"):
            raise ValueError(f"reduction is {reduction!r}; choose from sum, mean")
        super().__init__(**options)
        self.reduction = reduction

    def update(self, nll: Statistic, tokens: Statistic) -> None:
        """Add references."""
        self.add(self.statistics_of(nll, tokens))

    def statistics_of(self, nll: Statistic, tokens: Statistic) -> Statistics:
        """Return the statistics of each reference [N, size]."""
        return self._columns(nll, tokens)

    def value(self, nll: Numbers, tokens: Numbers) -> Numbers:
        """Return the negative log-likelihood."""
        return nll if self.reduction == "sum" else ratio(nll, tokens)


class PerplexityTokenScore(AdditiveScore):
    """Perplexity per token = exp(nll / tokens), `<unk>` being a token; comparable for one tokenizer
    only.
    """

    higher_is_better: bool | None = False
    size = 2

    def update(self, nll: Statistic, tokens: Statistic) -> None:
        """Add references."""
        self.add(self.statistics_of(nll, tokens))

    def statistics_of(self, nll: Statistic, tokens: Statistic) -> Statistics:
        """Return the statistics of each reference [N, size]."""
        return self._columns(nll, tokens)

    def value(self, nll: Numbers, tokens: Numbers) -> Numbers:
        """Return the perplexity, infinite above the range of float64."""
        return _exp(ratio(nll, tokens))


class PerplexityWordScore(AdditiveScore):
    """Perplexity per word = exp((nll + ln 2 * 8 * unknown_bytes) / words); comparable across
    tokenizers.
    """

    higher_is_better: bool | None = False
    size = 3

    def update(self, nll: Statistic, words: Statistic, unknown_bytes: Statistic = 0) -> None:
        """Add references."""
        self.add(self.statistics_of(nll, words, unknown_bytes))

    def statistics_of(
        self, nll: Statistic, words: Statistic, unknown_bytes: Statistic = 0
    ) -> Statistics:
        """Return the statistics of each reference [N, size]."""
        return self._columns(nll, words, unknown_bytes)

    def value(self, nll: Numbers, words: Numbers, unknown_bytes: Numbers) -> Numbers:
        """Return the perplexity, infinite above the range of float64."""
        return _exp(ratio(nll + math.log(2) * UNKNOWN_BITS * unknown_bytes, words))


class BitsPerByteScore(AdditiveScore):
    """Bits per byte = (nll / ln 2 + 8 * unknown_bytes) / bytes; comparable across tokenizers (Gao
    et al. 2020).
    """

    higher_is_better: bool | None = False
    size = 3

    def update(self, nll: Statistic, bytes: Statistic, unknown_bytes: Statistic = 0) -> None:
        """Add references."""
        self.add(self.statistics_of(nll, bytes, unknown_bytes))

    def statistics_of(
        self, nll: Statistic, bytes: Statistic, unknown_bytes: Statistic = 0
    ) -> Statistics:
        """Return the statistics of each reference [N, size]."""
        return self._columns(nll, bytes, unknown_bytes)

    def value(self, nll: Numbers, bytes: Numbers, unknown_bytes: Numbers) -> Numbers:
        """Return the bits per byte."""
        return ratio(nll, math.log(2) * bytes) + ratio(UNKNOWN_BITS * unknown_bytes, bytes)


class TokenAccuracyScore(AdditiveScore):
    """Token accuracy = correct / tokens, in [0, 1]."""

    higher_is_better: bool | None = True
    size = 2

    def update(self, correct: Statistic, tokens: Statistic) -> None:
        """Add references."""
        self.add(self.statistics_of(correct, tokens))

    def statistics_of(self, correct: Statistic, tokens: Statistic) -> Statistics:
        """Return the statistics of each reference [N, size]."""
        return self._columns(correct, tokens)

    def value(self, correct: Numbers, tokens: Numbers) -> Numbers:
        """Return the accuracy."""
        return ratio(correct, tokens)


class UnknownRatioScore(AdditiveScore):
    """Share of unknown tokens = unknown / tokens, in [0, 1]."""

    higher_is_better: bool | None = False
    size = 2

    def update(self, unknown: Statistic, tokens: Statistic) -> None:
        """Add references."""
        self.add(self.statistics_of(unknown, tokens))

    def statistics_of(self, unknown: Statistic, tokens: Statistic) -> Statistics:
        """Return the statistics of each reference [N, size]."""
        return self._columns(unknown, tokens)

    def value(self, unknown: Numbers, tokens: Numbers) -> Numbers:
        """Return the share."""
        return ratio(unknown, tokens)


class HitsScore(AdditiveScore):
    """Hits@1 of 20: share of examples whose reference is ranked first among 20 references, in [0,
    1]; chance is 0.05.

    The argument of `update` is the rank from 1, not a number for examples that are not ranked.
    Candidates are ranked by their mean log-likelihood per token given the context
    (`dialog.analysis.candidates`).
    """

    higher_is_better: bool | None = True
    size = 2

    def statistics_of(self, candidate_rank: Statistic) -> Statistics:
        """Return whether each reference is first, and whether it is ranked: float64 [N, 2]."""
        ranks = self._columns(candidate_rank)[:, 0]
        return self._columns(ranks == 1, ranks == ranks)

    def update(self, candidate_rank: Statistic) -> None:
        """Add examples."""
        self.add(self.statistics_of(candidate_rank))

    def value(self, hits: Numbers, ranked: Numbers) -> Numbers:
        """Return the share."""
        return ratio(hits, ranked)


def _exp(nats: Numbers) -> Numbers:
    with np.errstate(over="ignore"):
        return np.exp(nats)
