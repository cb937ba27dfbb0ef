"""Metrics of generated responses and of the likelihood of references, as `torchmetrics.Metric` classes.

Read first: `likelihood.py`; `additive.py` explains the sums. `family.py` builds the metrics of an evaluation.
"""

from __future__ import annotations

from dialog.metrics.diversity import DistinctN, LengthMean, UniqueRatio
from dialog.metrics.family import METRICS, build_metrics
from dialog.metrics.likelihood import (
    BitsPerByte,
    NegativeLogLikelihood,
    PerplexityToken,
    PerplexityWord,
    TokenAccuracy,
    UnknownRatio,
)
from dialog.metrics.overlap import F1, SacreBLEU
from dialog.metrics.words import detect_language, words

__all__ = [
    "F1",
    "METRICS",
    "BitsPerByte",
    "DistinctN",
    "LengthMean",
    "NegativeLogLikelihood",
    "PerplexityToken",
    "PerplexityWord",
    "SacreBLEU",
    "TokenAccuracy",
    "UniqueRatio",
    "UnknownRatio",
    "build_metrics",
    "detect_language",
    "words",
]
