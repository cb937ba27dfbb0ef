"""Diversity and length of responses, as `torchmetrics.Metric` classes."""

from __future__ import annotations

from dialog.metrics.additive import AdditiveMetric
from dialog.metrics.counts import CountMetric
from dialog.metrics.scores.diversity import (
    DistinctNScore,
    DullnessScore,
    EntropyScore,
    ExpectationAdjustedDistinctScore,
    LengthMeanScore,
    RarefiedDistinctScore,
    UniqueRatioScore,
)


class DistinctN(DistinctNScore, CountMetric):
    """Distinct n-grams / n-grams: `DistinctNScore`."""


class RarefiedDistinct(RarefiedDistinctScore, CountMetric):
    """Expected distinct-n of a number of n-grams: `RarefiedDistinctScore`."""


class UniqueRatio(UniqueRatioScore, CountMetric):
    """Distinct responses / responses: `UniqueRatioScore`."""


class ExpectationAdjustedDistinct(ExpectationAdjustedDistinctScore, CountMetric):
    """Expectation-adjusted distinct-n: `ExpectationAdjustedDistinctScore`."""


class Entropy(EntropyScore, CountMetric):
    """Entropy of n-grams: `EntropyScore`."""


class Dullness(DullnessScore, CountMetric):
    """Share of the most frequent responses: `DullnessScore`."""


class LengthMean(LengthMeanScore, AdditiveMetric):
    """Mean length in words: `LengthMeanScore`."""
