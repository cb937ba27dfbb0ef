"""Metrics of generated responses and of the likelihood of references, as `torchmetrics.Metric`
classes.

Read first: `likelihood.py`; `additive.py` explains the sums, `counts.py` the counts of n-grams.
`family.py` builds the metrics of an evaluation, and `measurement.py` applies them to the responses
of a system.
"""

from __future__ import annotations

from dialog.metrics.additive import SHARES, AdditiveMetric
from dialog.metrics.bleu import BLEU, SacreBLEU
from dialog.metrics.counts import CountMetric
from dialog.metrics.diversity import (
    DistinctN,
    Dullness,
    Entropy,
    ExpectationAdjustedDistinct,
    LengthMean,
    RarefiedDistinct,
    UniqueRatio,
)
from dialog.metrics.family import METRICS, build_metrics
from dialog.metrics.likelihood import (
    BitsPerByte,
    NegativeLogLikelihood,
    PerplexityToken,
    PerplexityWord,
    TokenAccuracy,
    UnknownRatio,
)
from dialog.metrics.measurement import Measurement
from dialog.metrics.overlap import F1
from dialog.metrics.words import detect_language, words

__all__ = [
    "BLEU",
    "F1",
    "METRICS",
    "SHARES",
    "AdditiveMetric",
    "BitsPerByte",
    "CountMetric",
    "DistinctN",
    "Dullness",
    "Entropy",
    "ExpectationAdjustedDistinct",
    "LengthMean",
    "Measurement",
    "NegativeLogLikelihood",
    "PerplexityToken",
    "PerplexityWord",
    "RarefiedDistinct",
    "SacreBLEU",
    "TokenAccuracy",
    "UniqueRatio",
    "UnknownRatio",
    "build_metrics",
    "detect_language",
    "words",
]
