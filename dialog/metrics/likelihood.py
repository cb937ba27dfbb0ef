"""Likelihood of the references, as `torchmetrics.Metric` classes."""

from __future__ import annotations

from torchmetrics import Metric, MetricCollection

from dialog.metrics.additive import AdditiveMetric
from dialog.metrics.scores.likelihood import (
    BitsPerByteScore,
    HitsScore,
    NegativeLogLikelihoodScore,
    PerplexityTokenScore,
    PerplexityWordScore,
    TokenAccuracyScore,
    UnknownRatioScore,
)


class NegativeLogLikelihood(NegativeLogLikelihoodScore, AdditiveMetric):
    """Negative log-likelihood in nats: `NegativeLogLikelihoodScore`."""


class PerplexityToken(PerplexityTokenScore, AdditiveMetric):
    """Perplexity per token: `PerplexityTokenScore`."""


class PerplexityWord(PerplexityWordScore, AdditiveMetric):
    """Perplexity per word: `PerplexityWordScore`."""


class BitsPerByte(BitsPerByteScore, AdditiveMetric):
    """Bits per byte: `BitsPerByteScore`."""


class TokenAccuracy(TokenAccuracyScore, AdditiveMetric):
    """Token accuracy: `TokenAccuracyScore`."""


class UnknownRatio(UnknownRatioScore, AdditiveMetric):
    """Share of unknown tokens: `UnknownRatioScore`."""


class Hits(HitsScore, AdditiveMetric):
    """Hits@1 of 20: `HitsScore`."""


def likelihood_metrics() -> MetricCollection:
    """Build the metrics of a validation, which needs no responses; ``loss`` is -log p per target
    token.
    """
    metrics: dict[str, Metric | MetricCollection] = {
        "loss": NegativeLogLikelihood("mean"),
        "perplexity": PerplexityToken(),
        "bits_per_byte": BitsPerByte(),
        "token_accuracy": TokenAccuracy(),
    }
    return MetricCollection(metrics, compute_groups=False)
