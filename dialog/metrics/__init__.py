"""Metrics of generated responses and of the likelihood of references, as `torchmetrics.Metric`
classes.

Read first: `scores/likelihood.py`; `scores/additive.py` explains the sums, `scores/counts.py` the
counts of n-grams. `scores/` has what the metrics compute, without torch. `family.py` builds the
metrics of an evaluation, and `measurement.py` applies them to the responses of a system.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dialog.metrics.words import detect_language, words

if TYPE_CHECKING:
    from dialog.metrics.additive import AdditiveMetric
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
    from dialog.metrics.overlap import BLEU, F1, SacreBLEU
    from dialog.metrics.scores.additive import SHARES

PUBLIC = {
    "BLEU": "overlap",
    "F1": "overlap",
    "METRICS": "family",
    "SHARES": "scores.additive",
    "AdditiveMetric": "additive",
    "BitsPerByte": "likelihood",
    "CountMetric": "counts",
    "DistinctN": "diversity",
    "Dullness": "diversity",
    "Entropy": "diversity",
    "ExpectationAdjustedDistinct": "diversity",
    "LengthMean": "diversity",
    "Measurement": "measurement",
    "NegativeLogLikelihood": "likelihood",
    "PerplexityToken": "likelihood",
    "PerplexityWord": "likelihood",
    "RarefiedDistinct": "diversity",
    "SacreBLEU": "overlap",
    "TokenAccuracy": "likelihood",
    "UniqueRatio": "diversity",
    "UnknownRatio": "likelihood",
    "build_metrics": "family",
}
"""Modules of the public names, imported when a name is first used: most need torch."""

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


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in PUBLIC:
        raise AttributeError(f"module 'dialog.metrics' has no attribute {name!r}")
    return getattr(import_module(f"dialog.metrics.{PUBLIC[name]}"), name)
